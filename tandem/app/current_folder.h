// app/current_folder.h: whether the program was started in a folder that still exists.
#pragma once

namespace tandem::app {

/// Ends the process with exit code 2 and a message on standard error when its current folder was deleted or has no
/// path. LibTorch's MKL ends such a process while it is loaded, in words of its own that blame a library, so main.cc
/// has this called before any library is initialised: it uses nothing but system calls. Never blocks.
void require_current_folder();

}  // namespace tandem::app
