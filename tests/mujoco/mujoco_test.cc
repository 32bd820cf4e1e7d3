// HalfCheetah has the same bits on any replicas and ranks, and after a kill; a MuJoCo that is missing, or is another
// one, is the user's mistake and says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Recipe half_cheetah() {
  return {"HalfCheetah",
          {"--env", "HalfCheetah-v5", "--seed", "11", "--shards", "4", "--num-envs", "4", "--rollout-steps", "128",
           "--epochs", "2", "--minibatch-size", "128", "--set", "policy.hidden=16,16"},
          4096,
          512};
}

// `tandem` with these variables.
Ended with(std::vector<std::string> variables, std::vector<std::string> arguments) {
  Command command = tandem(std::move(arguments));
  command.environment = std::move(variables);
  return run(command);
}

TEST(MujocoRunTest, HalfCheetahHasTheSameStateOnAnyReplicasAndRanksAndAfterAKill) {
  const TemporaryFolder scratch;
  const std::string state = uninterrupted_state(half_cheetah());
  for (const std::string devices : {"cpu:2", "cpu:4"}) {
    expect_success(train(half_cheetah(), scratch / devices, devices));
    EXPECT_EQ(state_of(scratch / devices), state) << devices;
  }
  expect_success(as_ranks(2, train(half_cheetah(), scratch / "ranks", "cpu:2")));
  EXPECT_EQ(state_of(scratch / "ranks"), state) << "two ranks";
  EXPECT_EQ(run(train(half_cheetah(), scratch / "killed", "cpu:2", "checkpoint.after_manifest:2:kill")).signal,
            SIGKILL);
  expect_success(resume(scratch / "killed", "cpu:1"));
  EXPECT_EQ(state_of(scratch / "killed"), state) << "killed and resumed";
}

// The numbers of Gymnasium's `info` are metrics of a run.
TEST(MujocoRunTest, ARunTellsWhereTheCheetahGot) {
  const TemporaryFolder scratch;
  expect_success(train(half_cheetah(), scratch / "run", "cpu:1"));
  std::ifstream metrics(scratch / "run/metrics.jsonl");
  const std::string all{std::istreambuf_iterator<char>(metrics), {}};
  EXPECT_THAT(all, AllOf(HasSubstr("\"env/x_velocity\""), HasSubstr("\"env/reward_ctrl\"")));
}

TEST(MujocoRunTest, ALibraryOfAnotherVersionIsRefused) {
  const Ended ended = with({std::string("TANDEM_MUJOCO=") + OTHER_MUJOCO}, {"check", "Hopper-v5"});
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("is version 3.3.7, and this tandem was built for version"),
                               HasSubstr("tools/bootstrap --mujoco")));
}

TEST(MujocoRunTest, AMissingLibraryOrModelIsNamed) {
  const TemporaryFolder scratch;
  const Ended library = with({"TANDEM_MUJOCO=" + scratch.path().string()},
                             {"train", "--env", "Hopper-v5", "--run-dir", (scratch / "run").string()});
  EXPECT_EQ(library.exit_code, 2) << library.err;
  EXPECT_THAT(library.err, HasSubstr("is no libmujoco.so and no folder with one"));
  const Ended model = with({"TANDEM_MUJOCO_MODELS=" + scratch.path().string()}, {"check", "Hopper-v5"});
  EXPECT_EQ(model.exit_code, 2) << model.err;
  EXPECT_THAT(model.err, AllOf(HasSubstr("the model 'hopper.xml' was not found"), HasSubstr(scratch.path().string())));
}

// What cannot be made is listed, with the reason; all else works.
TEST(MujocoRunTest, WithoutTheLibraryAllElseWorks) {
  const TemporaryFolder scratch;
  const std::string nowhere = "TANDEM_MUJOCO=" + scratch.path().string();
  const Ended listed = with({nowhere}, {"envs"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("HalfCheetah-v5"), HasSubstr("is no libmujoco.so and no folder with one")));
  EXPECT_EQ(with({nowhere}, {"check", "CartPole-v1"}).exit_code, 0);
  EXPECT_THAT(with({}, {"envs"}).out, Not(HasSubstr("is no libmujoco.so")));
}

}  // namespace
}  // namespace tandem::process_test
