// app/current_folder.h: whether the program was started in a folder that still exists.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include "tandem/app/exit_code.h"

namespace tandem::app {

/// Ends the process with exit code 2 and a message on standard error when its current folder was deleted or has no
/// path. LibTorch's MKL ends such a process while it is loaded, in words of its own that blame a library, so main.cc
/// has this called before any library is initialised: it uses nothing but system calls. Never blocks.
inline void require_current_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof(path)) != nullptr || errno == ERANGE || errno == ENAMETOOLONG) return;  // deep, not gone
  const char* const reason = ::strerrordesc_np(errno);
  for (const std::string_view text :
       {"tandem: the current directory cannot be used: ", reason == nullptr ? "unknown error" : reason,
        "; it was probably deleted: change to one that exists (cd) and run the command again\n"}) {
    // A message that cannot be written is given up: the exit code says the same.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(static_cast<int>(ExitCode::kUserCanFixIt));
}

}  // namespace tandem::app
