// An algorithm that only its own main() knows is trained, resumed, plotted and tuned as those of Tandem are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tests/support/child.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ToyAlgorithmTest : public ::testing::Test {
 protected:
  static Ended toy(std::vector<std::string> arguments) { return run({TOY_PROGRAM, std::move(arguments)}); }
  Ended train(const std::string& name, std::vector<std::string> more = {}, const std::string& rollout_steps = "128") {
    std::vector<std::string> arguments{"train", "--algo", "toy", "--env", "CartPole-v1", "--seed", "3", "--quiet"};
    arguments.insert(arguments.end(), {"--num-envs", "8", "--rollout-steps", rollout_steps, "--run-dir", at(name)});
    arguments.insert(arguments.end(), {"--set", "toy.sigma=0.1", "--set", "checkpoint.every_updates=5"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return toy(std::move(arguments));
  }
  std::string at(const std::string& name) { return folder / name; }
  JsonValue summary(const std::string& name) { return read_json(read_file(folder / name / "summary.json")); }

  TemporaryFolder folder;
};

TEST_F(ToyAlgorithmTest, ItsOptionsAreInTheHelpAndInTheRecordOfARunAndCheckedLikeOthers) {
  EXPECT_THAT(toy({"train", "--help"}).out,
              AllOf(HasSubstr("# ppo, dd_ppo, impala, appo, sac, td3, ddpg, dqn or toy"), HasSubstr("  toy.sigma: 0.5"),
                    HasSubstr("Standard deviation of a mutation.")));
  const Ended trained = train("run", {"--total-steps", "10240"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string config = read_file(folder / "run" / "config.yaml");
  EXPECT_THAT(config, AllOf(HasSubstr("algo: toy"), HasSubstr("toy:\n  sigma: 0.1"), Not(HasSubstr("ppo"))));
  EXPECT_THAT(train("other", {"--set", "toy.elitist=maybe", "--num-envs", "8"}).err, HasSubstr("toy.elitist = maybe"));
  EXPECT_THAT(train("other", {"--set", "ppo.gamma=0.9"}).err, HasSubstr("has no effect without algo: ppo or dd_ppo"));
  EXPECT_THAT(toy({"train", "--env", "Pendulum-v1", "--algo", "toy"}).err, HasSubstr("with discrete actions"));
  EXPECT_THAT(toy({"train", "--env", "CartPole-v1", "--algo", "toy", "--num-envs", "65"}).err,
              HasSubstr("the toy plays at most 64 environments"));
  EXPECT_THAT(toy({"train", "--env", "CartPole-v1", "--set", "toy.sigma=1"}).err,
              HasSubstr("has no effect without algo: toy"));
}

TEST_F(ToyAlgorithmTest, ItLearns) {
  const Ended trained = train("run", {"--total-steps", "480000"}, "600");  // an episode has 500 at most
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_GT(summary("run").at("episode_return_mean").as_double(), 60);  // 20 by chance
}

TEST_F(ToyAlgorithmTest, AResumedRunEndsInTheStateOfAnUninterruptedOne) {
  ASSERT_EQ(train("whole", {"--total-steps", "20480"}).exit_code, 0);
  ASSERT_EQ(train("parts", {"--total-steps", "7168"}).exit_code, 0);
  const Ended resumed = toy({"resume", at("parts"), "--total-steps", "20480", "--quiet"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(summary("parts").at("updates").as_int64(), 20);
  EXPECT_EQ(summary("parts").at("resumed").as_string(), "exactly");
  EXPECT_EQ(summary("parts").at("state_sha256").as_string(), summary("whole").at("state_sha256").as_string());
}

TEST_F(ToyAlgorithmTest, ARunIsPlottedAndInspected) {
  ASSERT_EQ(train("run", {"--total-steps", "10240"}).exit_code, 0);
  const Ended plotted = toy({"plot", at("run"), "-o", at("curve.svg")});
  ASSERT_EQ(plotted.exit_code, 0) << plotted.err;
  EXPECT_THAT(read_file(folder / "curve.svg"), HasSubstr("<svg"));
  EXPECT_THAT(toy({"inspect", at("run")}).out, HasSubstr("CartPole-v1 with toy"));
}

TEST_F(ToyAlgorithmTest, ItIsTuned) {
  const Ended tuned = toy({"tune", "--algo", "toy", "--env", "CartPole-v1", "--vary", "num_envs", "--seconds", "0.01",
                           "--rounds", "1", "-o", at("tuned.yaml")});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.out, AllOf(HasSubstr("toy on CartPole-v1"), HasSubstr("num_envs 16")));
  EXPECT_THAT(read_file(folder / "tuned.yaml"), HasSubstr("algo: toy"));
  EXPECT_THAT(toy({"tune", "--algo", "toy", "--env", "CartPole-v1", "--vary", "loaders"}).err,
              HasSubstr("has nothing of the kind; it takes num_envs"));
}

}  // namespace
}  // namespace tandem::process_test
