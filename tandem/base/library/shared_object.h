// base/library/shared_object.h: whether a file is a whole shared object of this machine, found out without loading it.
//
// The system's loader maps the parts that a file's headers name, whatever the size of the file. Of one that was cut
// off, as by a full disk or a copy that is still under way, the parts behind its end are not there, and the first touch
// of them kills the process (SIGBUS) without a word.
//
// Threads: all. Blocks on the disk; a file that is no regular file (a fifo, a device) is not opened.
#pragma once
#include <filesystem>
#include <string>

namespace tandem {

/// What is wrong with the file, to follow its name in a message: "is cut off: ..."; empty when nothing is.
/// The contents of its parts are not looked at: who may load code of his choice can do worse than damage it.
[[nodiscard]] std::string fault_of_shared_object(const std::filesystem::path& file);

}  // namespace tandem
