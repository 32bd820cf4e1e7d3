#include "child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

std::string content_of(std::FILE* file) {
  std::string text;
  std::fseek(file, 0, SEEK_SET);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text.push_back(static_cast<char>(c));
  return text;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    if (std::none_of(more.begin(), more.end(), [&](const std::string& own) { return own.starts_with(name); }))
      all.push_back(text);
  }
  return all;
}

}  // namespace

Child::Child(const Command& command)
    : name_(command.program.string()), out_(std::tmpfile(), std::fclose), err_(std::tmpfile(), std::fclose) {
  if (!out_ || !err_) throw std::system_error(errno, std::generic_category(), "files for a child's output");
  // Everything is made before the fork: between it and exec, only calls that are safe in a signal handler.
  std::vector<std::string> arguments{name_};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  for (const std::string& argument : command.arguments) name_ += " " + argument;
  for (const std::string& variable : command.environment) name_ = variable + " " + name_;
  std::vector<std::string> environment = environment_with(command.environment);
  const std::vector<char*> argument_pointers = pointers_to(arguments), environment_pointers = pointers_to(environment);
  const int out = ::fileno(out_.get()), err = ::fileno(err_.get());
  process_ = ::fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a test that was ended stays behind
    // The child is as a terminal starts it: a shell has background jobs ignore these, and the tests may be one.
    for (const int number : {SIGINT, SIGQUIT}) std::signal(number, SIG_DFL);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (!command.folder.empty() && ::chdir(command.folder.c_str()) != 0) ::_exit(126);
    if (command.prepare) command.prepare();
    ::execvpe(argument_pointers.front(), argument_pointers.data(), environment_pointers.data());
    ::_exit(127);
  }
}

Child::~Child() {
  if (!is_running()) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, &status_, 0);
}

bool Child::is_running() {
  if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
  return !ended_;
}

void Child::signal(int number) {
  if (is_running()) ::kill(process_, number);
}

Ended Child::wait() {
  const Deadline deadline = Deadline::after(kPatience);
  while (is_running()) {
    if (deadline.expired()) {
      throw std::runtime_error(concat("did not end within ", kPatience.count(), " minutes: ", name_, "\n",
                                      content_of(out_.get()), content_of(err_.get())));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  Ended ended{.out = content_of(out_.get()), .err = content_of(err_.get())};
  if (WIFSIGNALED(status_)) ended.signal = WTERMSIG(status_);
  if (WIFEXITED(status_)) ended.exit_code = WEXITSTATUS(status_);
  return ended;
}

std::string Ended::how() const { return signal != 0 ? concat("signal ", signal) : concat("exit code ", exit_code); }

Ended run(const Command& command) { return Child(command).wait(); }

}  // namespace tandem::process_test
