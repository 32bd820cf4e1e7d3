// `tandem top` on runs as their users see them: while they go, with a rank that is stopped, when they have ended or are
// gone, and on a terminal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "survivors.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

Ended top(const fs::path& folder) { return run(tandem({"top", folder.string()})); }

Command endless(const fs::path& folder) { return train(with_steps(cartpole(), 1'000'000'000), folder, "cpu:1"); }

// The process in rank's row of the run's status.
pid_t process_of(const fs::path& folder, std::size_t rank) {
  const JsonValue status = read_json(read_file(folder / "status.json"));
  return static_cast<pid_t>(status.at("ranks").as_array().at(rank).at("process").as_int64());
}

TEST(TopTest, ShowsEachRankOfARunThatGoesOnAndNamesOneThatIsStopped) {
  for (const bool by_launch : {false, true}) {
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    Command command = endless(folder);
    if (by_launch) {
      command = as_ranks(2, command);
    } else {
      command.arguments.insert(command.arguments.end(), {"--ranks", "2"});
    }
    Child child(command);
    ASSERT_TRUE(reaches_update(child, folder, 3));
    // Figures come with the first update, phases with each rank's next sign of life.
    Ended shown;
    ASSERT_TRUE(eventually([&] {
      shown = top(folder);
      return shown.out.find('%') != std::string::npos && shown.out.find("  start  ") == std::string::npos;
    })) << shown.out;
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_THAT(shown.out,
                AllOf(HasSubstr("CartPole-v1 ppo  running"), ContainsRegex("\n    0  (sample|learn|wait|save) "),
                      ContainsRegex("\n    1  (sample|learn|wait|save) "), Not(HasSubstr("\033"))));
    const pid_t stopped = process_of(folder, 1);
    EXPECT_EQ(fs::read_symlink(concat("/proc/", stopped, "/exe")), fs::canonical(TANDEM_PROGRAM));
    ::kill(stopped, SIGSTOP);
    EXPECT_TRUE(eventually([&] { return top(folder).out.find("silent: rank 1 since ") != std::string::npos; }))
        << top(folder).out;
    EXPECT_THAT(top(folder).out, Not(HasSubstr("rank 0 since")));
    ::kill(stopped, SIGCONT);
    EXPECT_TRUE(eventually([&] { return top(folder).out.find("silent") == std::string::npos; }));
    child.signal(SIGTERM);
    EXPECT_EQ(child.wait().exit_code, 130);
    EXPECT_THAT(top(folder).out,
                AllOf(HasSubstr("  stopped  "), HasSubstr("the run has ended"), HasSubstr("  ended  ")));
  }
}

TEST(TopTest, SaysThatARunIsGoneOrSilent) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child child(endless(folder));
  ASSERT_TRUE(reaches_update(child, folder, 3));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "status.json"); }));
  child.signal(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return top(folder).out.find("rank 0 is silent since") != std::string::npos; }));
  child.signal(SIGKILL);
  (void)child.wait();
  EXPECT_THAT(top(folder).out, AllOf(HasSubstr("ended without a word"), HasSubstr("resume")));
  Child resumed(resume(folder, "cpu:1"));
  EXPECT_TRUE(eventually([&] { return top(folder).out.find("  running  ") != std::string::npos; }));
  resumed.signal(SIGTERM);
  EXPECT_EQ(resumed.wait().exit_code, 130);
}

// It ended before the first beat that could have shown its updates.
TEST(TopTest, AShortRunThatHasEndedShowsAllItsUpdates) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  ASSERT_EQ(run(train(with_steps(cartpole(), 3072), folder, "cpu:1")).exit_code, 0);
  const JsonValue status = read_json(read_file(folder / "status.json"));
  EXPECT_EQ(status.at("ranks").as_array().at(0).at("updates").as_int64(),
            read_json(read_file(folder / "summary.json")).at("updates").as_int64());
}

TEST(TopTest, RefusesAFolderThatIsNoRun) {
  const TemporaryFolder scratch;
  std::ofstream(scratch / "notes.txt") << "mine";
  const Ended other = top(scratch.path());
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("is no run folder"));
  const Ended missing = top(scratch / "missing");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("there is no run folder"));
}

// What a program writes to a terminal of 20 lines with 60 columns until it ends; `on_text` gets what there is by now.
std::string on_terminal(
    Command command, const std::function<void(const std::string&)>& on_text = [](auto&) {}) {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  EXPECT_EQ(::grantpt(master.get()), 0);
  EXPECT_EQ(::unlockpt(master.get()), 0);
  const std::string name = ::ptsname(master.get());  // NOLINT(concurrency-mt-unsafe): one thread
  const winsize window{.ws_row = 20, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(master.get(), TIOCSWINSZ, &window);
  command.prepare = [name] {
    const int terminal = ::open(name.c_str(), O_RDWR | O_NOCTTY);
    ::dup2(terminal, STDOUT_FILENO);
  };
  Child child(command);
  std::string text;
  char buffer[4096];
  // What it wrote last is read after its end.
  for (bool is_running = true; is_running;) {
    is_running = child.is_running();
    pollfd readable{master.get(), POLLIN, 0};
    while (::poll(&readable, 1, is_running ? 50 : 0) > 0 && (readable.revents & POLLIN) != 0) {
      const ssize_t size = ::read(master.get(), buffer, sizeof(buffer));
      if (size <= 0) break;
      text.append(buffer, static_cast<std::size_t>(size));
    }
    on_text(text);
  }
  EXPECT_EQ(child.wait().exit_code, 0);
  return text;
}

TEST(TopTest, OnATerminalItShowsFramesUntilTheRunHasEnded) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child child(endless(folder));
  ASSERT_TRUE(reaches_update(child, folder, 3));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "status.json"); }));
  const std::string once = on_terminal(tandem({"top", folder.string(), "--once"}));
  EXPECT_THAT(once, AllOf(HasSubstr("running"), Not(HasSubstr("\033"))));
  // The run is asked to end when three frames are there.
  bool is_asked = false;
  const std::string frames = on_terminal(tandem({"top", folder.string()}), [&](const std::string& text) {
    if (is_asked || count_in(text, "\033[H") < 3) return;
    is_asked = true;
    child.signal(SIGTERM);
  });
  EXPECT_TRUE(frames.starts_with("\033[?1049h")) << "the user's screen is kept";
  const std::size_t back = frames.find("\033[?1049l");
  ASSERT_NE(back, std::string::npos);
  EXPECT_THAT(frames.substr(back), AllOf(HasSubstr("stopped"), HasSubstr("the run has ended")));
  EXPECT_EQ(child.wait().exit_code, 130);
}

}  // namespace
}  // namespace tandem::process_test
