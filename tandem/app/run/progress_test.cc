#include "tandem/app/run/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

UpdateMetrics metrics_at(std::int64_t steps) {
  UpdateMetrics metrics;
  metrics.env_steps = steps;
  metrics.env_steps_per_s = 18'300;
  metrics.episode_return_mean = 187.34;
  return metrics;
}

TEST(EstimateTest, TheRateOfThisProcessCounts) {
  const ProgressGoal goal{100'000, 50'000};  // resumed at half
  const ProgressEstimate at = estimate(goal, 75'000, 10);
  EXPECT_DOUBLE_EQ(at.share, 0.75);
  EXPECT_DOUBLE_EQ(at.seconds_left, 10);
  EXPECT_TRUE(std::isnan(estimate(goal, 50'000, 10).seconds_left));
  EXPECT_DOUBLE_EQ(estimate(goal, 110'000, 10).share, 1);
  EXPECT_DOUBLE_EQ(estimate(goal, 110'000, 10).seconds_left, 0);
}

TEST(ProgressLineTest, ShowsReturnRateAndTimeLeft) {
  EXPECT_EQ(progress_line(metrics_at(42'000), {100'000, 0}, 3.2, 100),
            "[=====>        ]  42%  return 187.3  42.0k/100k steps  18.3k/s  0:03 left");
}

TEST(ProgressLineTest, ShowsTheFirstTwoMetricsOfTheEnvironment) {
  UpdateMetrics metrics = metrics_at(42'000);
  metrics.figures.add("env/success", 0.93).add("policy_loss", 1.0).add("env/distance", nullptr).add("env/third", 3.0);
  EXPECT_EQ(progress_text(metrics, {100'000, 0}, 3.2, 100),
            "42%  return 187.3  success 0.9300  distance -  42.0k/100k steps  18.3k/s  0:03 left");
}

TEST(ProgressLineTest, ShowsEachPolicyWhereTheirReturnsSumToZero) {
  UpdateMetrics metrics = metrics_at(42'000);
  metrics.episode_return_mean = 0;
  metrics.figures.add("policy/a/episode_return_mean", 0.25).add("policy/b/episode_return_mean", -0.25);
  EXPECT_EQ(progress_text(metrics, {100'000, 0}, 3.2, 100),
            "42%  return a 0.2500, b -0.2500  42.0k/100k steps  18.3k/s  0:03 left");
  metrics.episode_return_mean = 0.5;
  EXPECT_THAT(progress_text(metrics, {100'000, 0}, 3.2, 100), HasSubstr("return 0.5000 "));
  metrics.episode_return_mean.reset();
  EXPECT_THAT(progress_text(metrics, {100'000, 0}, 3.2, 100), HasSubstr("return - "));
}

TEST(ProgressLineTest, NeverIsWiderThanTheScreen) {
  for (int width = 0; width < 120; ++width) {
    EXPECT_LE(progress_line(metrics_at(42'000), {100'000, 0}, 3.2, width).size(), static_cast<std::size_t>(width));
  }
  EXPECT_EQ(progress_line(metrics_at(42'000), {100'000, 0}, 3.2, 20), "42%  return 187.3");
  EXPECT_THAT(progress_line(metrics_at(42'000), {100'000, 0}, 3.2, 79), ::testing::StartsWith("["));
}

// A pipe, or a terminal of the system's own making.
class Screen {
 public:
  enum class Kind { kPipe, kTerminal };
  explicit Screen(Kind kind) {
    if (kind == Kind::kPipe) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::pipe(ends.data()), 0);
      reader = ends[0];
      writer = ends[1];
    } else {
      reader = ::posix_openpt(O_RDWR | O_NOCTTY);
      EXPECT_EQ(::grantpt(reader) | ::unlockpt(reader), 0);
      writer = ::open(::ptsname(reader), O_RDWR | O_NOCTTY);  // NOLINT(concurrency-mt-unsafe): one thread
      const winsize size{24, 60, 0, 0};
      EXPECT_EQ(::ioctl(writer, TIOCSWINSZ, &size), 0);
    }
  }
  ~Screen() {
    ::close(reader);
    ::close(writer);
  }
  // What was written so far. A terminal hands it on in pieces, so a mark that no line holds says where it ends.
  [[nodiscard]] std::string content() const {
    constexpr char kEnd = '\0';
    EXPECT_EQ(::write(writer, &kEnd, 1), 1);
    std::string text;
    std::array<char, 65536> piece{};
    while (!text.ends_with(kEnd)) {
      const ssize_t size = ::read(reader, piece.data(), piece.size());
      if (size <= 0) {
        ADD_FAILURE() << "the screen ended";
        return text;
      }
      text.append(piece.data(), static_cast<std::size_t>(size));
    }
    text.pop_back();
    return text;
  }
  int reader = -1, writer = -1;
};

TEST(ProgressTest, ATerminalLineIsRedrawnInPlaceAndNotForEveryUpdate) {
  const Screen screen(Screen::Kind::kTerminal);
  const std::unique_ptr<Progress> progress = make_progress(screen.writer, Verbosity::kProgress);
  progress->start({100'000, 0});
  for (int i = 1; i <= 1000; ++i) progress->update(metrics_at(i * 100));
  progress->finish();
  const std::string text = screen.content();
  EXPECT_THAT(text, AllOf(HasSubstr("\r\033[K"), HasSubstr("100%"), EndsWith("\n")));
  EXPECT_LT(text.size(), 2000u);
  for (std::size_t at = text.find("\033[K"); at != std::string::npos; at = text.find("\033[K", at + 1)) {
    EXPECT_LT(text.find_first_of("\r\n", at) - at - 3, 60u);
  }
}

TEST(ProgressTest, APipeGetsPlainLinesNowAndThen) {
  const Screen screen(Screen::Kind::kPipe);
  const std::unique_ptr<Progress> progress = make_progress(screen.writer, Verbosity::kProgress);
  progress->start({100'000, 0});
  for (int i = 1; i <= 1000; ++i) progress->update(metrics_at(i * 100));
  progress->say("a word");
  progress->finish();
  const std::string text = screen.content();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\033")), HasSubstr("a word\n"), HasSubstr("100%")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);  // the first, the word, the last
}

TEST(ProgressTest, QuietShowsNothing) {
  const Screen screen(Screen::Kind::kPipe);
  const std::unique_ptr<Progress> progress = make_progress(screen.writer, Verbosity::kQuiet);
  progress->start({100, 0});
  progress->update(metrics_at(50));
  progress->say("a word");
  progress->finish();
  ASSERT_EQ(::write(screen.writer, "end", 3), 3);
  EXPECT_EQ(screen.content(), "end");
}

TEST(ProgressTest, AReaderThatGoesAwayDoesNotEndTheRun) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  const std::unique_ptr<Progress> progress = make_progress(ends[1], Verbosity::kProgress);
  progress->update(metrics_at(50));
  progress->finish();
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace tandem::app
