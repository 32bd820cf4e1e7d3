// `tandem tune`, interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Whether a run of it has begun whose settings have `text`; false when the child ended before.
bool trains_with(Child& child, const std::filesystem::path& scratch, const std::string& text) {
  while (child.is_running()) {
    for (const auto& entry : std::filesystem::directory_iterator(scratch)) {
      try {
        if (read_file(entry.path() / "run" / "config.yaml").find(text) != std::string::npos) return true;
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): between two runs
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

TEST(TuneTest, CtrlCShowsWhatWasMeasuredAndLeavesNothingBehind) {
  const TemporaryFolder scratch, place;
  Command command = tandem({"tune", "--env", "CartPole-v1", "--shards", "2", "--seconds", "0.2", "--rounds", "1000",
                            "--vary", "devices", "-o", place / "tuned.yaml"});
  command.environment.push_back("TMPDIR=" + scratch.path().string());
  Child child(command);
  ASSERT_TRUE(trains_with(child, scratch.path(), "\ndevices: cpu:2")) << child.wait().err;
  child.signal(SIGINT);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("\n  as given "), HasSubstr("stopped before all was measured"),
                               Not(HasSubstr("written:"))));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_FALSE(std::filesystem::exists(place / "tuned.yaml"));
}

// It hangs where it writes the checkpoint that the first one asks for, or that of a run's end.
TEST(TuneTest, ASecondCtrlCEndsItAtOnceAndLeavesNothingBehind) {
  const TemporaryFolder scratch, place;
  Command command = tandem({"tune", "--env", "CartPole-v1", "--shards", "2", "-o", place / "tuned.yaml"});
  command.environment = {"TMPDIR=" + scratch.path().string(), "TANDEM_FAULT=checkpoint.begin:1:hang"};
  Child child(command);
  ASSERT_TRUE(trains_with(child, scratch.path(), "\nenv: CartPole-v1")) << child.wait().err;
  while (child.is_running()) {
    child.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("ended at once"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace tandem::process_test
