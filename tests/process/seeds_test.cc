// `tandem train --seeds`: several runs and one report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Command train_seeds(const std::filesystem::path& folder, const std::string& steps, const std::string& seeds = "2") {
  return tandem({"train", "--env", "CartPole-v1", "--seed", "3", "--seeds", seeds, "--total-steps", steps, "--run-dir",
                 folder.string()});
}

TEST(SeedsTest, EachSeedIsTheRunThatItIsAloneAndTheReportHasTheirMean) {
  const TemporaryFolder place;
  Child child(train_seeds(place / "all", "4096"));
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  expect_success(tandem({"train", "--env", "CartPole-v1", "--seed", "4", "--total-steps", "4096", "--run-dir",
                         (place / "alone").string()}));
  EXPECT_EQ(state_of(place / "all" / "seed-4"), state_of(place / "alone"));
  const JsonValue report = read_json_file(place / "all" / "seeds.json");
  const auto return_of = [&](const char* name) {
    return summary_of(place / "all" / name).at("episode_return_mean").as_double();
  };
  EXPECT_DOUBLE_EQ(report.at("episode_return_mean").as_double(), (return_of("seed-3") + return_of("seed-4")) / 2);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("seed 4, run 2 of 2"), ContainsRegex("\n +3 .*\n +4 "),
                               HasSubstr("95 % confidence interval")));
  EXPECT_TRUE(std::filesystem::exists(place / "all" / "curve.png"));
}

TEST(SeedsTest, WhatASignalStoppedIsFinishedByTheSameCommand) {
  const TemporaryFolder place;
  Child child(train_seeds(place / "all", "40000"));
  ASSERT_TRUE(reaches_update(child, place / "all" / "seed-4", 2)) << child.wait().err;
  child.signal(SIGINT);
  const Ended stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("stopped in run 2 of 2; the same command"));
  EXPECT_FALSE(std::filesystem::exists(place / "all" / "seeds.json"));
  Child again(train_seeds(place / "all", "40000"));
  const Ended ended = again.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("seed-3 has made its 40000 steps and is left as it is"));
  EXPECT_EQ(read_json_file(place / "all" / "seeds.json").at("seeds").as_array().size(), 2);
}

TEST(SeedsTest, EachRunHasAClockOfItsOwn) {
  const TemporaryFolder place;
  expect_success(train_seeds(place / "all", "40000"));  // so long that the first line of the second run is far below
  const std::string lines = read_file(place / "all" / "seed-4" / "metrics.jsonl");
  const double first = read_json(lines.substr(0, lines.find('\n'))).at("wall_s").as_double();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, summary_of(place / "all" / "seed-3").at("wall_s").as_double()) << "it began after that run";
}

TEST(SeedsTest, RunsOfOtherSettingsAreRefusedAndMoreSeedsAreAdded) {
  const TemporaryFolder place;
  const auto with = [&place](const std::string& steps, const std::string& more, const std::string& seeds = "2") {
    Command command = train_seeds(place / "all", steps, seeds);
    command.arguments.insert(command.arguments.end(), {"--set", more});
    return Child(command).wait();
  };
  ASSERT_EQ(with("1024", "ppo.learning_rate=0.002").exit_code, 0);
  const std::string folder = (place / "all" / "seed-3").string();
  const Ended other = with("1024", "ppo.learning_rate=0.0005");
  EXPECT_EQ(other.exit_code, 2) << other.out;
  EXPECT_THAT(other.err, HasSubstr(concat("ppo.learning_rate = 0.0005: ", folder, " was trained with 0.002")));
  for (const char* steps : {"512", "4096"}) {
    const Ended ended = with(steps, "ppo.learning_rate=0.002");
    EXPECT_EQ(ended.exit_code, 2) << ended.out;
    EXPECT_THAT(ended.err, HasSubstr(concat("total_steps = ", steps, ": ", folder, " was trained with 1024")));
  }
  EXPECT_EQ(with("1024", "log.level=debug").exit_code, 2) << "without the learning rate of the others";
  Command command = train_seeds(place / "all", "1024", "3");
  command.arguments.insert(command.arguments.end(), {"--set=ppo.learning_rate=0.002", "--set=log.level=debug"});
  const Ended more = Child(command).wait();
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_THAT(more.out, HasSubstr("seed-4 has made its 1024 steps and is left as it is"));
  EXPECT_EQ(read_json_file(place / "all" / "seeds.json").at("seeds").as_array().size(), 3);
}

TEST(SeedsTest, TheFolderStandsForItsRunsInAPicture) {
  const TemporaryFolder place;
  expect_success(train_seeds(place / "runs" / "all", "1024"));
  expect_success(tandem({"train", "--env", "CartPole-v1", "--seed", "9", "--total-steps", "1024", "--set",
                         "ppo.gamma=0.9", "--run-dir", (place / "runs" / "one").string()}));
  const std::vector<std::string> both{(place / "runs" / "all").string(), (place / "runs" / "one").string()};
  for (const char* picture : {"a.png", "b.png"}) {
    expect_success(tandem({"plot", both[0], both[1], "-o", (place / picture).string()}));
    EXPECT_TRUE(std::filesystem::exists(place / picture));
    std::filesystem::remove(place / "runs" / "all" / "seeds.json");  // as while they train
  }
  const Ended ended = Child(tandem({"resume", both[0]})).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("it holds the runs of --seeds, name one of them, as"));
}

TEST(SeedsTest, TheReportHasEachPolicyWhereTheyPlayAgainstEachOther) {
  const TemporaryFolder place;
  Child child(tandem({"train", "--env", "KuhnPoker-v0", "--seeds", "2", "--total-steps", "2048", "--run-dir",
                      (place / "all").string()}));
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("return player_0 "), HasSubstr("mean return of player_1 "),
                               Not(HasSubstr("mean return 0.0000"))));
  const JsonValue report = read_json_file(place / "all" / "seeds.json");
  EXPECT_NE(report.at("policy/player_0/episode_return_mean").as_double(), 0);
  EXPECT_EQ(report.at("policy/player_0/confidence_low").as_double(),
            -report.at("policy/player_1/confidence_high").as_double());
  EXPECT_NE(report.at("seeds").as_array().at(1).find("policy/player_1/episode_return_mean"), nullptr);
}

TEST(SeedsTest, RanksTrainEachSeed) {
  const TemporaryFolder place;
  Command command = train_seeds(place / "all", "4096");
  command.arguments.insert(command.arguments.end(), {"--ranks=2", "--resume=auto"});
  Child child(command);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(summary_of(place / "all" / "seed-4").at("seed").as_int64(), 4);
}

TEST(SeedsTest, FaultsAreToldBeforeTheFirstRun) {
  const TemporaryFolder place;
  expect_success(
      tandem({"train", "--env", "CartPole-v1", "--total-steps", "256", "--run-dir", (place / "one").string()}));
  Child child(train_seeds(place / "one", "4096"));
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("holds a single run; name another folder"));
  Child wrong(train_seeds(place / "new", "-1"));
  const Ended refused = wrong.wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("total_steps = -1"), Not(HasSubstr("seed-3"))));
  EXPECT_FALSE(std::filesystem::exists(place / "new"));
}

}  // namespace
}  // namespace tandem::process_test
