// The program with algorithms that learn from a replay: a run from its start to an exported policy, and what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OffPolicyProgramTest : public ::testing::Test {
 protected:
  static Outcome run(const std::vector<std::string>& arguments) {
    return run_captured(arguments, rl::EnvRegistry::native());
  }
  Outcome train(const std::string& algo, const std::string& env, const std::string& name,
                const std::vector<std::string>& more = {}, const std::string& steps = "400") {
    // DDPG's options are those of TD3.
    const std::string section = algo == "ddpg" ? "td3" : algo;
    std::vector<std::string> arguments{"train",
                                       "--algo",
                                       algo,
                                       "--env",
                                       env,
                                       "--run-dir",
                                       folder / name,
                                       "--set",
                                       "policy.hidden=8",
                                       "--total-steps",
                                       steps,
                                       "--rollout-steps",
                                       "100",
                                       "--set",
                                       section + ".learning_starts=50",
                                       "--set",
                                       section + ".batch_size=8",
                                       "--set",
                                       section + ".replay_size=300"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  JsonValue summary_of(const std::string& name) { return read_json(read_file(folder / name / "summary.json")); }

  TemporaryFolder folder;
};

TEST_F(OffPolicyProgramTest, ARunIsTrainedResumedEvaluatedAndExported) {
  const std::vector<std::pair<std::string, std::string>> kinds{
      {"sac", "Pendulum-v1"}, {"td3", "Pendulum-v1"}, {"ddpg", "Pendulum-v1"}, {"dqn", "MaskedCartPole-v1"}};
  for (const auto& [algo, env] : kinds) {
    const Outcome whole = train(algo, env, algo);
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_THAT(read_file(folder / algo / "log.txt"), HasSubstr("drawn from the last 300"));
    ASSERT_EQ(train(algo, env, algo + "-part", {}, "200").code, 0);
    const Outcome resumed = run({"resume", folder / (algo + "-part"), "--total-steps", "400"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(summary_of(algo + "-part").at("state_sha256").as_string(),
              summary_of(algo).at("state_sha256").as_string())
        << algo;
    const Outcome evaluated = run({"eval", folder / algo, "--episodes", "2"});
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    const Outcome exported = run({"export", folder / algo, "-o", folder / (algo + ".pt")});
    EXPECT_EQ(exported.code, 0) << exported.err;
    EXPECT_TRUE(std::filesystem::exists(folder / (algo + ".pt")));
  }
}

TEST_F(OffPolicyProgramTest, ARunOfAFixedTemperatureIsReadAgain) {
  ASSERT_EQ(train("sac", "Pendulum-v1", "fixed", {"--set", "sac.fixed_temperature=0.1"}, "200").code, 0);
  const Outcome resumed = run({"resume", folder / "fixed", "--total-steps", "300"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(read_file(folder / "fixed" / "config.yaml"), ::testing::Not(HasSubstr("\n  temperature:")));
}

TEST_F(OffPolicyProgramTest, WhatAnAlgorithmCannotLearnIsSaidBeforeARunBegins) {
  const auto refused = [&](const Outcome& outcome, const auto& words) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, words);
  };
  refused(train("dqn", "Pendulum-v1", "a"), HasSubstr("Pendulum-v1 takes no single choice"));
  refused(train("sac", "CartPole-v1", "b"), HasSubstr("CartPole-v1 takes choices"));
  refused(train("sac", "MultiAgentCartPole-v0", "c"), HasSubstr("several agents"));
  refused(train("td3", "Pendulum-v1", "d", {"--set", "policy.recurrent=lstm"}),
          HasSubstr("td3 trains no policies that remember"));
  refused(train("sac", "Pendulum-v1", "e", {"--set", "policy.trunks=shared"}),
          HasSubstr("sac has networks of its own"));
  refused(train("sac", "Pendulum-v1", "f", {"--shards", "3", "--set", "num_envs=3"}),
          AllOf(HasSubstr("sac.batch_size"), HasSubstr("each of the 3 shards has an equal part; use 6 or 9")));
  refused(train("dqn", "CartPole-v1", "g",
                {"--set", "dqn.returns=categorical", "--set", "dqn.least_return=5", "--set", "dqn.most_return=5"}),
          HasSubstr("must be below dqn.most_return"));
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) EXPECT_FALSE(std::filesystem::exists(folder / name));
}

}  // namespace
}  // namespace tandem::app
