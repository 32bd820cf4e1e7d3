#include "tandem/app/run/other_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/forked_program.h"
#include "tandem/base/nameless_memory.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr off_t kMostSaid = 4000;

// Both outputs go to one file in memory, in the order in which they were written.
pid_t start(std::vector<std::string>& words, const Descriptor& output) {
  std::vector<char*> arguments = pointers_to(words);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output.get(), STDERR_FILENO);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = -1;
  const int error = ::posix_spawn(&process, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw RunError(concat(words[0], " cannot be started: ", std::generic_category().message(error)));
  return process;
}

}  // namespace

// Files that this process has open close in the program by themselves, since they are opened so.
ProgramEnd run_to_end(std::vector<std::string> words, std::chrono::seconds limit) {
  const Descriptor output = nameless_memory("program output");
  const pid_t process = start(words, output);
  const Clock::time_point end = Clock::now() + limit;
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      ::kill(-process, SIGKILL);
      ::waitpid(process, nullptr, 0);
      throw RunError(
          concat(words[0], " has not ended after ", limit.count(), " s and was killed; it said: ", last_said(output)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .said = last_said(output)};
}

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::filesystem::path> find_program(const std::vector<std::string>& names) {
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  for (const std::string& name : names) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      const std::filesystem::path program = std::filesystem::absolute(folder.empty() ? "." : folder) / name;
      if (is_program(program)) return program.lexically_normal();
    }
  }
  return std::nullopt;
}

std::string last_said(const Descriptor& file) {
  const off_t size = ::lseek(file.get(), 0, SEEK_END), from = std::max<off_t>(0, size - kMostSaid);
  std::string said(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t count = ::pread(file.get(), said.data(), said.size(), from);
  said.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  while (said.ends_with('\n')) said.pop_back();
  return said;
}

}  // namespace tandem::app
