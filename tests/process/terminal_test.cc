// A run and its terminal: one that goes away, one that understands no escape codes, and none at all.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>

#include "tandem/base/descriptor.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A terminal of its own for a child, which leads the terminal's session: it gets a SIGHUP when hang_up() is called.
class Terminal {
 public:
  Terminal() : screen_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(::grantpt(screen_.get()), 0);
    EXPECT_EQ(::unlockpt(screen_.get()), 0);
    EXPECT_EQ(::ptsname_r(screen_.get(), name_, sizeof(name_)), 0);
  }

  [[nodiscard]] Command with(Command command, const std::string& term) const {
    command.environment.push_back("TERM=" + term);
    command.prepare = [name = name_] {
      ::setsid();
      const int terminal = ::open(name, O_RDWR);  // becomes the session's terminal
      for (int stream = 0; stream < 3; ++stream) ::dup2(terminal, stream);
    };
    return command;
  }
  void hang_up() { screen_.close(); }
  // What was printed, when the child has ended: the system then ends the terminal's output with an error.
  [[nodiscard]] std::string printed() const {
    std::string text;
    char part[4096];
    for (ssize_t size = 0; (size = ::read(screen_.get(), part, sizeof(part))) > 0;)
      text.append(part, static_cast<std::size_t>(size));
    return text;
  }

 private:
  Descriptor screen_;
  char name_[64] = {};
};

Command long_run(const std::filesystem::path& folder, std::int64_t steps, int ranks) {
  Command command = train(with_steps(cartpole(), steps), folder, "cpu:1");
  if (ranks > 1) command.arguments.insert(command.arguments.end(), {"--ranks", std::to_string(ranks)});
  return command;
}

TEST(TerminalTest, ARunWhoseTerminalIsLostStopsWithACheckpoint) {
  for (const int ranks : {1, 2}) {
    const TemporaryFolder scratch;
    Terminal terminal;
    Child child(terminal.with(long_run(scratch / "run", 1'000'000'000, ranks), "xterm"));
    ASSERT_TRUE(reaches_update(child, scratch / "run", 3)) << terminal.printed();
    terminal.hang_up();
    EXPECT_EQ(child.wait().how(), "exit code 130");
    EXPECT_EQ(summary_of(scratch / "run").at("end").as_string(), "stopped");
    expect_inspectable(scratch / "run");
  }
}

TEST(TerminalTest, ARunUnderNohupGoesOnWithoutIt) {
  for (const int ranks : {1, 2}) {
    const TemporaryFolder scratch;
    Terminal terminal;
    Command command = terminal.with(long_run(scratch / "run", 16'384, ranks), "xterm");
    command.prepare = [take = command.prepare] {
      std::signal(SIGHUP, SIG_IGN);
      take();
    };
    Child child(command);
    ASSERT_TRUE(reaches_update(child, scratch / "run", 3));
    terminal.hang_up();
    EXPECT_EQ(child.wait().how(), "exit code 0");
    EXPECT_EQ(summary_of(scratch / "run").at("end").as_string(), "finished");
  }
}

TEST(TerminalTest, WithoutStandardStreamsARunEndsAsWithThem) {
  const TemporaryFolder scratch;
  Command command = long_run(scratch / "run", cartpole().steps, 2);
  command.prepare = [] { ::close_range(0, 2, 0); };
  EXPECT_EQ(run(command).how(), "exit code 0");
  EXPECT_EQ(state_of(scratch / "run"), uninterrupted_state(cartpole()));
}

TEST(TerminalTest, EscapeCodesGoOnlyWhereTheyAreUnderstood) {
  for (const std::string term : {"dumb", "xterm"}) {
    const TemporaryFolder scratch;
    const Terminal terminal;
    Child child(terminal.with(long_run(scratch / "run", 512, 1), term));
    const std::string printed = terminal.printed();
    EXPECT_EQ(child.wait().exit_code, 0) << printed;
    EXPECT_THAT(printed, HasSubstr("finished"));
    EXPECT_EQ(printed.find('\033') == std::string::npos, term == "dumb") << printed;
  }
}

// Many signals at once, as of a shell script that ends its children in a loop, are one wish; none ends the launcher.
TEST(TerminalTest, AStormOfSignalsIsOneStop) {
  const TemporaryFolder scratch;
  Child child(long_run(scratch / "run", 1'000'000'000, 2));
  ASSERT_TRUE(reaches_update(child, scratch / "run", 3));
  while (child.is_running()) child.signal(SIGTERM);
  EXPECT_EQ(child.wait().how(), "exit code 130");
  EXPECT_EQ(summary_of(scratch / "run").at("end").as_string(), "stopped");
}

}  // namespace
}  // namespace tandem::process_test
