// Bad command lines.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "bad_input.h"
#include "tandem/base/testing/address_sanitizer.h"

namespace tandem::process_test {
namespace {

struct BadFlags {
  const char* name;
  const char* arguments;
  std::vector<std::string> words;
};
void PrintTo(const BadFlags& flags, std::ostream* out) { *out << "tandem " << flags.arguments; }

class BadFlagsTest : public ::testing::TestWithParam<BadFlags> {};

TEST_P(BadFlagsTest, AreNamedAndNothingIsStarted) {
  const TemporaryFolder folder;
  expect_refusal(tandem(folder.path(), split(GetParam().arguments)), kUserCanFixIt, GetParam().words);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "something was written before the flags were checked";
}

INSTANTIATE_TEST_SUITE_P(
    Commands, BadFlagsTest,
    ::testing::Values(
        BadFlags{"NoCommand", "", {"name a command", "train"}},
        BadFlags{"UnknownCommand", "trian", {"'trian'", "nearest one is train"}},
        BadFlags{"UnknownFlag", "train --env CartPole-v1 --sed 3", {"--sed", "nearest one is --seed"}},
        BadFlags{"UnknownFlagOfAnother", "version --jsn", {"--jsn", "nearest one is --json"}},
        BadFlags{"MissingValue", "train --env", {"--env", "value must follow"}},
        BadFlags{"StrayWord", "train --env CartPole-v1 one.yaml two.yaml", {"two.yaml"}},
        BadFlags{"TwiceGiven", "train --env CartPole-v1 --seed 1 --seed 2", {"seed = 2", "as 1", "give it once"}},
        BadFlags{"SetWithoutEquals", "train --env CartPole-v1 --set gamma", {"--set gamma", "expected key=value"}},
        BadFlags{"SetOfASection", "train --env CartPole-v1 --set ppo=1", {"ppo = 1", "section", "ppo.epochs"}},
        BadFlags{"SetOfAnUnknownKey",
                 "train --env CartPole-v1 --set ppo.gama=0.9",
                 {"ppo.gama = 0.9", "nearest one is ppo.gamma"}},
        BadFlags{"EvalOfNothing", "eval", {"RUN_DIR|CHECKPOINT", "required"}},
        BadFlags{"EvalOfNoEpisodes", "eval somewhere --episodes 0", {"--episodes 0", "at least 1"}},
        BadFlags{"EvalOfAWord", "eval somewhere --episodes many", {"--episodes many", "integer"}},
        BadFlags{"EvalOfAMissingRun", "eval nowhere", {"nowhere", "neither a run folder", "nor a checkpoint"}},
        BadFlags{"InspectOfAMissingRun", "inspect nowhere", {"nowhere", "neither a run folder nor a checkpoint"}},
        BadFlags{"ResumeOfAMissingRun", "resume nowhere", {"no run folder nowhere", "--run-dir"}},
        BadFlags{"PlotOfAMissingRun", "plot nowhere -o a.png", {"no run folder nowhere"}},
        BadFlags{"PlotOfNothing", "plot -o a.png", {"RUN_DIR", "required"}},
        BadFlags{"ExportOfAnotherFormat", "export nowhere -o a.tflite", {"a.tflite", ".onnx"}},
        BadFlags{"EnvsOfAnUnknownName", "envs Pendulm-v1", {"'Pendulm-v1'", "did you mean 'Pendulum-v1'"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, BadFlagsTest,
    ::testing::Values(
        BadFlags{"NoEnv", "train", {"env", "--env CartPole-v1", "tandem envs"}},
        BadFlags{"UnknownEnv", "train --env CartPol-v1", {"'CartPol-v1'", "did you mean 'CartPole-v1'"}},
        BadFlags{"UnknownAlgorithm",
                 "train --env CartPole-v1 --algo a2c",
                 {"algo = a2c (--algo)", "expected ppo, dd_ppo, impala, appo, sac, td3, ddpg or dqn"}},
        BadFlags{"SeedOfLetters", "train --env CartPole-v1 --seed ten", {"seed = ten (--seed)", "integer from 0"}},
        BadFlags{"SeedBelowZero", "train --env CartPole-v1 --seed -1", {"seed = -1 (--seed)", "from 0"}},
        BadFlags{"NoSteps", "train --env CartPole-v1 --total-steps 0", {"total_steps = 0", "from 1"}},
        BadFlags{"StepsBeyondIntegers",
                 "train --env CartPole-v1 --total-steps 99999999999999999999",
                 {"total_steps = 99999999999999999999", "integer"}},
        BadFlags{"TooManyEnvs", "train --env CartPole-v1 --num-envs 2000000", {"num_envs = 2000000", "1 to 1000000"}},
        BadFlags{"RateIsNan",
                 "train --env CartPole-v1 --set ppo.learning_rate=nan",
                 {"ppo.learning_rate = nan", "above 0, at most 1"}},
        BadFlags{"GammaAboveOne", "train --env CartPole-v1 --set ppo.gamma=1.5", {"ppo.gamma = 1.5", "from 0 to 1"}},
        BadFlags{"LayerOfLetters",
                 "train --env CartPole-v1 --set policy.hidden=64,x",
                 {"policy.hidden = 64,x", "list", "found \"x\""}},
        BadFlags{"AnEmptyList", "train --env CartPole-v1 --set policy.hidden=", {"policy.hidden", "written []"}},
        BadFlags{"HeadForOtherActions",
                 "train --env CartPole-v1 --set policy.head=normal",
                 {"policy.head = normal", "Discrete(2)", "what fits: categorical"}},
        BadFlags{"WithoutEffect",
                 "train --env CartPole-v1 --set normalize.clip_reward=5",
                 {"normalize.clip_reward = 5", "no effect without normalize.rewards: true"}},
        BadFlags{"UnknownWordForResume",
                 "train --env CartPole-v1 --resume maybe",
                 {"resume = maybe (--resume)", "never, auto or must"}},
        BadFlags{"ResumeMustWithoutAFolder", "train --env CartPole-v1 --resume must", {"resume = must", "--run-dir"}},
        BadFlags{"ResumeMustOfNothing",
                 "train --env CartPole-v1 --resume must --run-dir nowhere",
                 {"no run folder nowhere"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Launch, BadFlagsTest,
    ::testing::Values(
        BadFlags{"ImpalaOnRanksThatDrops",
                 "train --algo appo --env CartPole-v1 --ranks 2 --run-dir run --set "
                 "impala.max_policy_lag=2 --set impala.beyond_lag=drop",
                 {"impala.beyond_lag = drop", "the learners of 2 ranks make equally many steps", "use wait"}},
        BadFlags{"LaunchOfNothing", "launch --ranks 2", {"no command to launch", "-- ./my_program"}},
        BadFlags{"LaunchWithoutRanks", "launch -- true", {"--ranks is not given"}},
        BadFlags{"LaunchOfNoRanks", "launch --ranks 0 -- true", {"--ranks 0", "from 1 to 1000"}},
        BadFlags{"LaunchWithoutDashes", "launch --ranks 2 true", {"'true'", "put it behind --"}},
        BadFlags{"LaunchOfAMissingProgram",
                 "launch --ranks 2 -- ./nowhere",
                 {"cannot start './nowhere'", "No such file", "in PATH"}},
        BadFlags{"LaunchWithAnUnknownWord",
                 "launch --ranks 2 --on-death restart -- true",
                 {"--on-death restart", "stop, continue or replace"}},
        BadFlags{"LaunchWithAnUnknownFlag", "launch --rank 2 -- true", {"--rank:", "nearest one is --ranks"}},
        BadFlags{"LaunchWithoutEffect",
                 "launch --ranks 2 --max-restarts 2 -- true",
                 {"--max-restarts 2", "no effect without --on-death replace"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Topology, BadFlagsTest,
    ::testing::Values(
        BadFlags{"MinibatchesTwice",
                 "train --env CartPole-v1 --minibatches 4 --minibatch-size 64",
                 {"ppo.minibatches = 4", "contradicts ppo.minibatch_size = 64", "one of the two"}},
        BadFlags{"EnvsOverShards",
                 "train --env CartPole-v1 --num-envs 5 --shards 2",
                 {"num_envs = 5", "2 shards", "4 or 6 would"}},
        BadFlags{"RowsOverMinibatches",
                 "train --env CartPole-v1 --minibatches 7",
                 {"ppo.minibatches = 7", "256 rows", "4 or 8 would"}},
        BadFlags{"FewerShardsThanReplicas",
                 "train --env CartPole-v1 --devices cpu:2 --shards 1",
                 {"shards = 1 (--shards)", "2 replicas", "at least 2 shards"}},
        BadFlags{"UnknownStrategy",
                 "train --env CartPole-v1 --strategy mirrored",
                 {"strategy = mirrored (--strategy)",
                  "replicated, divided, parameter_server, asynchronous, sync_replicas or local_steps"}},
        BadFlags{"ServersWithoutAServer",
                 "train --env CartPole-v1 --strategy divided --set parameter_server.servers=first",
                 {"parameter_server.servers = first", "no effect without strategy: parameter_server"}},
        BadFlags{"UnknownDevice", "train --env CartPole-v1 --devices gpu:1", {"devices = gpu:1", "cpu:N", "cuda:0,1"}},
        BadFlags{"NoCpu", "train --env CartPole-v1 --devices cpu:0", {"devices = cpu:0", "from 1 to 1024"}},
        BadFlags{"CpuOfLetters", "train --env CartPole-v1 --devices cpu:two", {"devices = cpu:two", "cpu:N"}},
        // On a machine with CUDA because it has no hundred devices, elsewhere because it has none.
        BadFlags{"MissingCuda", "train --env CartPole-v1 --devices cuda:99", {"devices = cuda:99", "CUDA"}}),
    name_of);

TEST(BadFlagsTogetherTest, AreAllReportedAtOnce) {
  const TemporaryFolder folder;
  expect_refusal(
      tandem(folder.path(), split("train --env CartPol-v1 --seed ten --total-steps 0 --devices gpu:1 --sed 1 "
                                  "--set ppo.gama=1 --set ppo.gamma=2")),
      kUserCanFixIt,
      {"7 faults", "CartPol-v1", "seed = ten", "total_steps = 0", "gpu:1", "--sed", "ppo.gama", "ppo.gamma"});
}

// Found by arithmetic, and so at once: to make such layers would take half a minute before the system refuses.
TEST(BadFlagsTogetherTest, LayersThatNoMachineHoldsAreRefused) {
  const TemporaryFolder folder;
  const std::string wide = "65536,65536,65536,65536,65536,65536,65536,65536,65536";
  expect_refusal(tandem(folder.path(), split("train --env CartPole-v1 --set policy.hidden=" + wide)), kUserCanFixIt,
                 {"policy.hidden", "GB of memory", "choose smaller layers"});
}

#ifndef TANDEM_ADDRESS_SANITIZER  // which needs more than the limit for itself
TEST(BadFlagsTogetherTest, MoreThanTheMemoryHoldsIsNoDefect) {
  const TemporaryFolder folder;
  Command command = tandem(
      folder.path(), split("train --env CartPole-v1 --num-envs 1000000 --rollout-steps 1000 --minibatch-size 1000"));
  command.prepare = [] {
    const rlimit limit{rlim_t{6} << 30, rlim_t{6} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
  };
  expect_refusal(command, kRunFailed, {"no more memory", "fewer environments", "smaller layers"});
}
#endif

}  // namespace
}  // namespace tandem::process_test
