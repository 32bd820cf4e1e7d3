// base/file_owner.h: who else than the user of this process may change a file, before it is believed as if he had
// written it himself.
//
// Others are all users but this one and root, who may do anything. A group counts as others, unless it is the user's
// own and has nobody else in it, as Debian and Ubuntu give one to each user.
//
// Threads: all. Asks the system's lists of users and groups, which may be on another machine.
#pragma once
#include <filesystem>
#include <string>

namespace tandem {

/// How others may change the file or folder itself, with its name: "runs/a may be written by everybody". Empty when
/// they may not. A link stands for what it points to.
[[nodiscard]] std::string who_else_writes(const std::filesystem::path& path);

/// The same of the file and of all folders above it, in one of which somebody could put another file in its place. Of a
/// folder in which nobody may touch what others have put there (the sticky bit, as of /tmp), only the owner counts.
[[nodiscard]] std::string who_else_replaces(const std::filesystem::path& file);

}  // namespace tandem
