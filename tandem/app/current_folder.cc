#include "tandem/app/current_folder.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include "tandem/app/exit_code.h"

namespace tandem::app {
namespace {

// A message that cannot be written is given up: the exit code says the same.
void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void require_current_folder() {
  char path[PATH_MAX];
  if (::getcwd(path, sizeof(path)) != nullptr || errno == ERANGE || errno == ENAMETOOLONG) return;  // deep, not gone
  const char* const reason = ::strerrordesc_np(errno);
  say("tandem: the current directory cannot be used: ");
  say(reason == nullptr ? "unknown error" : reason);
  say("; it was probably deleted: change to one that exists (cd) and run the command again\n");
  ::_exit(static_cast<int>(ExitCode::kUserCanFixIt));
}

}  // namespace tandem::app
