// Schedules as the program reads, records and follows them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ScheduleProgramTest : public ::testing::Test {
 protected:
  // Eight updates of 128 steps.
  Outcome train(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train",
                                       "--env",
                                       "CartPole-v1",
                                       "--run-dir",
                                       folder / name,
                                       "--total-steps",
                                       "1024",
                                       "--num-envs",
                                       "4",
                                       "--rollout-steps",
                                       "32",
                                       "--set",
                                       "policy.hidden=8",
                                       "--minibatches",
                                       "2",
                                       "--set",
                                       "checkpoint.every_updates=4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_captured(arguments);
  }
  std::vector<double> rates_of(const std::string& name) {
    std::istringstream lines(read_file(folder / name / "metrics.jsonl"));
    std::vector<double> rates;
    for (std::string line; std::getline(lines, line);) rates.push_back(read_json(line).at("learning_rate").as_double());
    return rates;
  }
  std::string state_of(const std::string& name) {
    return read_json(read_file(folder / name / "summary.json")).at("state_sha256").as_string();
  }

  TemporaryFolder folder;
};

TEST_F(ScheduleProgramTest, PointsComeFromAFlagOrAFileAreRecordedAndFollowed) {
  const std::string points = "piecewise(0: 2e-3, 0.5: 1e-3, 0.5: 5e-4)";
  ASSERT_EQ(train("a", {"--set", "ppo.learning_rate_schedule=" + points}).code, 0);
  EXPECT_THAT(rates_of("a"),
              ::testing::Pointwise(::testing::DoubleEq(), {2e-3, 1.75e-3, 1.5e-3, 1.25e-3, 5e-4, 5e-4, 5e-4, 5e-4}));
  EXPECT_THAT(read_file(folder / "a/config.yaml"),
              HasSubstr("learning_rate_schedule: \"piecewise(0: 0.002, 0.5: 0.001, 0.5: 5e-04)\""));
  write_file(folder / "a.yaml", "ppo:\n  learning_rate_schedule: \"" + points + "\"\n");
  ASSERT_EQ(train("b", {folder / "a.yaml"}).code, 0);
  EXPECT_EQ(state_of("a"), state_of("b"));
}

TEST_F(ScheduleProgramTest, AResumedRunFollowsThem) {
  const std::vector<std::string> more{"--set", "ppo.learning_rate_schedule=piecewise(0: 2e-3, 1: 1e-3)"};
  ASSERT_EQ(train("a", more).code, 0);
  std::filesystem::copy(folder / "a", folder / "b", std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "b/checkpoints")) {
    if (entry.path().filename().string().find('8') != std::string::npos) std::filesystem::remove_all(entry.path());
  }
  const Outcome resumed = run_captured({"resume", folder / "b"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out + read_file(folder / "b/log.txt"), HasSubstr("goes on after update 4"));
  EXPECT_EQ(rates_of("a"), rates_of("b"));
  EXPECT_EQ(state_of("a"), state_of("b"));
}

TEST_F(ScheduleProgramTest, WhatIsNoScheduleIsRefusedBeforeTheRun) {
  const auto fault = [&](const std::string& text) {
    const Outcome refused = train("refused", {"--set", "ppo.learning_rate_schedule=" + text});
    EXPECT_EQ(refused.code, 2);
    EXPECT_FALSE(std::filesystem::exists(folder / "refused"));
    return refused.err;
  };
  EXPECT_THAT(fault("cosine"), HasSubstr("expected constant, linear or piecewise(SHARE: VALUE, ...)"));
  EXPECT_THAT(fault("piecewise(0: 1e-3, 2: 0)"), HasSubstr("shares of the run go up from 0 to 1"));
  EXPECT_THAT(fault("piecewise(0: 1e-3, 0.5: 30)"), HasSubstr("a learning rate is at most 1, and at 0.5 it is 30"));
  EXPECT_THAT(run_captured({"train", "--help"}).out, HasSubstr("piecewise(0: 3e-4, 0.5: 1e-4, 1: 0)"));
}

}  // namespace
}  // namespace tandem::app
