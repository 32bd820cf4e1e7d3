// The program with algorithms that learn from a replay: a run from its start to an exported policy, and what is
// refused.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/model/files/checkpoint_store.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
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
  const std::vector<std::pair<std::string, std::string>> kinds{{"sac", "Pendulum-v1"},
                                                               {"td3", "Pendulum-v1"},
                                                               {"ddpg", "Pendulum-v1"},
                                                               {"dqn", "MaskedCartPole-v1"},
                                                               {"sac", "CartPole-v1"}};
  for (const auto& [algo, env] : kinds) {
    const std::string name = concat(algo, "-", env);
    const Outcome whole = train(algo, env, name);
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_THAT(read_file(folder / name / "log.txt"), HasSubstr("drawn from the last 300"));
    ASSERT_EQ(train(algo, env, name + "-part", {}, "200").code, 0);
    const Outcome resumed = run({"resume", folder / (name + "-part"), "--total-steps", "400"});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(summary_of(name + "-part").at("state_sha256").as_string(),
              summary_of(name).at("state_sha256").as_string())
        << name;
    const Outcome evaluated = run({"eval", folder / name, "--episodes", "2"});
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    const Outcome exported = run({"export", folder / name, "-o", folder / (name + ".pt")});
    EXPECT_EQ(exported.code, 0) << exported.err;
    EXPECT_TRUE(std::filesystem::exists(folder / (name + ".pt")));
  }
}

TEST_F(OffPolicyProgramTest, ARunOfAFixedTemperatureIsReadAgain) {
  ASSERT_EQ(train("sac", "Pendulum-v1", "fixed", {"--set", "sac.fixed_temperature=0.1"}, "200").code, 0);
  const Outcome resumed = run({"resume", folder / "fixed", "--total-steps", "300"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(read_file(folder / "fixed" / "config.yaml"), ::testing::Not(HasSubstr("\n  temperature:")));
}

// Targets are what is learned from at once; they begin where their networks do. The second run makes no turn of
// learning, so its last checkpoint has what it began with.
TEST_F(OffPolicyProgramTest, AWarmStartGivesTargetNetworksTheWeightsOfTheirNetworks) {
  for (const auto& [algo, env] :
       {std::pair("sac", "Pendulum-v1"), {"td3", "Pendulum-v1"}, {"dqn", "MaskedCartPole-v1"}}) {
    const std::string source = concat(algo, "-source"), name = concat(algo, "-warm");
    ASSERT_EQ(train(algo, env, source).code, 0);
    const std::string later = concat(algo, ".learning_starts=200");
    const std::vector<std::string> more{"--init-from", folder / source, "--seed", "5", "--set", later};
    std::vector<std::string> arguments{"train", "--algo", algo, "--env", env, "--run-dir", folder / name};
    for (const char* setting : {"policy.hidden=8", "total_steps=100", "rollout_steps=100"})
      arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome warm = run(arguments);
    ASSERT_EQ(warm.code, 0) << warm.err;
    const auto tensors = [&](const std::string& checkpoint, const char* part) {
      return model::Checkpoint::open(folder / checkpoint).read_part(part).tensors;
    };
    const model::NamedTensors wanted = tensors(source + "/checkpoints/u000000000004", "state"),
                              found = tensors(name + "/checkpoints/u000000000001", "target");
    ASSERT_FALSE(found.empty());
    for (const auto& [key, tensor] : found) {
      const auto its = std::ranges::find(wanted, "parameters." + key, &model::NamedTensors::value_type::first);
      ASSERT_NE(its, wanted.end()) << key;
      EXPECT_TRUE(at::equal(tensor, its->second)) << algo << ": " << key;
    }
  }
}

TEST_F(OffPolicyProgramTest, TheReplayKeepsTheNewestFrameOfAStack) {
  const Outcome stacked = train("dqn", "MaskedCartPole-v1", "stacked",
                                {"--env-wrapper", "frame_stack=4", "--env-wrapper", "reward_clip=sign"}, "200");
  ASSERT_EQ(stacked.code, 0) << stacked.err;
  const std::filesystem::path checkpoints = folder / "stacked/checkpoints";
  EXPECT_THAT(read_file(checkpoints / "u000000000002/replay-0.safetensors"), HasSubstr(" of 4 frames"));
  EXPECT_EQ(run({"resume", folder / "stacked", "--total-steps", "300"}).code, 0);
  // A run whose environment failed goes on with one that is made anew, and the other way round.
  for (const auto& [steps, restarts] : {std::pair("400", "env_restarts=1"), {"500", "env_restarts=0"}}) {
    const Outcome resumed = run({"resume", folder / "stacked", "--total-steps", steps, "--set", restarts});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
  }
  const std::string warning = "with env_restarts environments are saved in another way than without";
  const std::string log = read_file(folder / "stacked/log.txt");
  const std::size_t first = log.find(warning);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(log.find(warning, first + 1), std::string::npos);
  EXPECT_THAT(read_file(checkpoints / "u000000000004/replay-0.safetensors"), HasSubstr(" of 4 frames"));
}

// Only what is asked for has to have an effect: an earlier build may have recorded what this one refuses.
TEST_F(OffPolicyProgramTest, ARecordMayHoldWhatHasNoEffect) {
  ASSERT_EQ(train("dqn", "MaskedCartPole-v1", "recorded", {}, "200").code, 0);
  const std::filesystem::path file = folder / "recorded/config.yaml";
  std::string config = read_file(file);
  const std::string beta = "priority_beta: 0.4";
  ASSERT_NE(config.find(beta), std::string::npos);
  write_file(file, config.replace(config.find(beta), beta.size(), "priority_beta: 0.6"));
  EXPECT_THAT(run({"resume", folder / "recorded", "--total-steps", "300"}).err, HasSubstr("was made with 0.4"));
  EXPECT_THAT(run({"resume", folder / "recorded", "--set", "dqn.priority_beta=0.6"}).err,
              HasSubstr("has no effect without dqn.priority_alpha"));
}

// SAC with segments of 51 KB, which are files of their own; a checkpoint comes with each of five updates, and half of
// the steps are learned from.
class LargeReplayTest : public OffPolicyProgramTest {
 protected:
  Outcome train_large(const std::string& name, const std::string& steps = "20000",
                      const std::vector<std::string>& more = {}, const RunObserver& observer = {}) {
    std::vector<std::string> arguments{
        "train",       "--algo",          "sac",  "--env",         "Pendulum-v1", "--num-envs", "4", "--run-dir",
        folder / name, "--rollout-steps", "1000", "--total-steps", steps};
    for (const char* setting : {"policy.hidden=8", "sac.batch_size=8", "sac.replay_size=65536", "sac.train_every=250",
                                "sac.learning_starts=10000", "checkpoint.every_updates=1"})
      arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_captured(arguments, rl::EnvRegistry::native(), observer);
  }
  std::string state_of(const std::string& name) { return summary_of(name).at("state_sha256").as_string(); }
  // Of a run that nobody disturbed, for all tests of this process.
  std::string undisturbed_state() {
    static const std::string state = [this] {
      EXPECT_EQ(train_large("undisturbed").code, 0);
      return state_of("undisturbed");
    }();
    return state;
  }
};

TEST_F(LargeReplayTest, ACheckpointTakesFullSegmentsOfTheReplayOverFromTheOneBefore) {
  std::vector<std::int64_t> told;
  const RunObserver observer{.on_checkpoint = [&](const SavedCheckpoint& saved) {
    model::Checkpoint::open(saved.folder).verify();
    told.push_back(saved.updates);
  }};
  ASSERT_EQ(train_large("whole", "20000", {}, observer).code, 0);
  EXPECT_THAT(told, ElementsAre(1, 2, 3, 4, 5));
  const auto segment = [&](const char* checkpoint) {
    return folder / "whole/checkpoints" / checkpoint / "replay-0.steps.0.safetensors";
  };
  EXPECT_TRUE(std::filesystem::equivalent(segment("u000000000004"), segment("u000000000005")));
  ASSERT_EQ(train_large("part", "12000").code, 0);
  const Outcome resumed = run({"resume", folder / "part", "--total-steps", "20000"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(state_of("part"), state_of("whole"));
  EXPECT_EQ(summary_of("part").at("resumed").as_string(), "exactly");
}

// The thread that writes fails; the run ends with its error, and goes on from the checkpoint before.
TEST_F(LargeReplayTest, ACheckpointThatCannotBeWrittenEndsTheRunAndTheOneBeforeIsWhole) {
  arm_fault({"checkpoint.part_kept", 3, FaultKind::kThrow});
  const Outcome failed = train_large("run");
  disarm_fault();
  EXPECT_EQ(failed.code, 3) << failed.err;
  EXPECT_THAT(failed.err, HasSubstr("checkpoint.part_kept"));
  EXPECT_EQ(summary_of("run").at("end").as_string(), "failed");
  EXPECT_THAT(summary_of("run").at("failure").as_string(), HasSubstr("checkpoint.part_kept"));
  const Outcome resumed = run({"resume", folder / "run"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(state_of("run"), undisturbed_state());
}

// The last checkpoint is of the update that the run stopped after, whatever was being written when the signal came.
TEST_F(LargeReplayTest, ASignalWaitsForTheCheckpointThatIsOnItsWay) {
  const RunObserver stops{.on_update = [](const Record& line) {
    if (line.number("updates") == 3) (void)std::raise(SIGTERM);
  }};
  const Outcome stopped = train_large("run", "20000", {}, stops);
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  const std::optional<model::Checkpoint> newest = model::CheckpointStore(folder / "run/checkpoints").latest();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->updates(), summary_of("run").at("updates").as_int64());
  ASSERT_EQ(run({"resume", folder / "run"}).code, 0);
  EXPECT_EQ(state_of("run"), undisturbed_state());
}

TEST_F(LargeReplayTest, SegmentsWhoseCheckpointWasRemovedOrDamagedAreWrittenAgain) {
  const RunObserver disturbs{.on_checkpoint = [&](const SavedCheckpoint& saved) {
    if (saved.updates == 2) std::filesystem::remove_all(saved.folder);
    if (saved.updates == 3) std::filesystem::resize_file(saved.folder / "replay-0.steps.0.safetensors", 100);
  }};
  ASSERT_EQ(train_large("run", "20000", {}, disturbs).code, 0);
  const model::CheckpointStore store(folder / "run/checkpoints");
  EXPECT_EQ(store.latest()->updates(), 5);
  EXPECT_THROW(store.open(3).verify(), CheckpointError);
  EXPECT_NO_THROW(store.open(4).verify());
}

TEST_F(LargeReplayTest, ADamagedSegmentIsNamedByTheResume) {
  ASSERT_EQ(train_large("run", "12000").code, 0);
  const auto segment = folder / "run/checkpoints/u000000000003/replay-0.steps.2.safetensors";
  std::string bytes = read_file(segment);
  bytes[bytes.size() / 2] ^= 1;
  write_file(segment, bytes);
  const Outcome resumed = run({"resume", folder / "run", "--total-steps", "20000"});
  EXPECT_EQ(resumed.code, 3);
  EXPECT_THAT(resumed.err, AllOf(HasSubstr(segment.string() + " is damaged"), HasSubstr("The one after 2 updates")));
}

// In a file without a name, which takes its space before the run begins: 1.7 MB of rows and what a segment needs.
TEST_F(LargeReplayTest, AReplayInAFolderHasTheSameBitsAndLeavesNothingThere) {
  ASSERT_EQ(train_large("memory", "12000").code, 0);
  std::filesystem::create_directory(folder / "scratch");
  const std::vector<std::string> in_folder{"--set", "sac.replay_folder=" + (folder / "scratch").string()};
  const RunObserver looks{.on_update = [&](const Record&) {
    EXPECT_THAT(read_file("/proc/self/maps"), HasSubstr((folder / "scratch/").string())) << "the replay is elsewhere";
  }};
  const Outcome trained = train_large("file", "12000", in_folder, looks);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(state_of("file"), state_of("memory"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "scratch"));
  EXPECT_THAT(read_file(folder / "file/log.txt"), HasSubstr("which files in " + (folder / "scratch").string()));
  // A run that goes on may put it elsewhere.
  const Outcome resumed = run({"resume", folder / "file", "--total-steps", "16000", "--set", "sac.replay_folder=none"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Outcome nowhere = train_large("nowhere", "12000", {"--set", "sac.replay_folder=/nowhere/at/all"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("sac.replay_folder"), HasSubstr("/nowhere/at/all is no folder")));
}

TEST_F(OffPolicyProgramTest, WhatAnAlgorithmCannotLearnIsSaidBeforeARunBegins) {
  const auto refused = [&](const Outcome& outcome, const auto& words) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, words);
  };
  refused(train("dqn", "Pendulum-v1", "a"), HasSubstr("Pendulum-v1 takes no single choice"));
  refused(train("td3", "CartPole-v1", "b"), HasSubstr("CartPole-v1 takes choices"));
  refused(train("sac", "MultiAgentCartPole-v0", "c"), HasSubstr("several agents"));
  refused(train("sac", "CartPole-v1", "b", {"--set", "sac.critic_norm=layer"}),
          HasSubstr("sac.critic_norm has no effect where actions are choices"));
  refused(train("sac", "CartPole-v1", "b", {"--set", "sac.noise_correlation=0.5"}),
          HasSubstr("sac.noise_correlation has no effect where actions are choices"));
  // Its losses go by autograd, which rounds nothing. A processor without such products is named instead.
  refused(train("sac", "CartPole-v1", "b", {"--set", "sac.compute=bfloat16"}), HasSubstr("sac.compute"));
  refused(train("td3", "Pendulum-v1", "d", {"--set", "policy.recurrent=lstm"}),
          HasSubstr("td3 trains no policies that remember"));
  refused(train("sac", "Pendulum-v1", "e", {"--set", "policy.trunks=shared"}),
          HasSubstr("sac has networks of its own"));
  refused(train("sac", "Pendulum-v1", "f", {"--shards", "3", "--set", "num_envs=3"}),
          AllOf(HasSubstr("sac.batch_size"), HasSubstr("each of the 3 shards has an equal part; use 6 or 9")));
  refused(train("dqn", "CartPole-v1", "g",
                {"--set", "dqn.returns=categorical", "--set", "dqn.least_return=5", "--set", "dqn.most_return=5"}),
          HasSubstr("must be below dqn.most_return"));
  refused(train("td3", "Pendulum-v1", "h", {"--set", "td3.compute=bfloat16", "--set", "td3.kernel=off"}),
          AllOf(HasSubstr("td3.compute"), HasSubstr("td3.kernel is off; use float32")));
  refused(train("sac", "Pendulum-v1", "i", {"--set", "sac.compute=bfloat16", "--set", "instructions=portable"}),
          AllOf(HasSubstr("sac.compute"), HasSubstr("it goes with the instruction set avx512")));
  refused(train("td3", "Pendulum-v1", "j", {"--set", "td3.critics=2", "--set", "td3.target_critics=3"}),
          AllOf(HasSubstr("td3.target_critics"), HasSubstr("drawn from the critics, which are 2")));
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
    EXPECT_FALSE(std::filesystem::exists(folder / name));
}

// A few seconds of the task that hindsight is for; `make test-learn` has the whole one.
TEST_F(OffPolicyProgramTest, HindsightReachesGoalsThatAreNotReachedByChance) {
  const auto solved = [&](const std::string& hindsight) {
    const Outcome outcome = run({"train", "--algo", "dqn", "--env", "BitFlipping-v0", "--env-option", "bits=8",
                                 "--run-dir", folder / hindsight, "--total-steps", "12000", "--set", "policy.hidden=64",
                                 "--set", "dqn.batch_size=64", "--set", "dqn.hindsight=" + hindsight});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return summary_of(hindsight).at("env/solved").as_double();
  };
  EXPECT_GT(solved("future"), 0.9);
  EXPECT_LT(solved("none"), 0.2);
}

TEST_F(OffPolicyProgramTest, HindsightWithoutGoalsIsSaidBeforeARunBegins) {
  const Outcome without = train("td3", "Pendulum-v1", "a", {"--set", "td3.hindsight=final"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("td3.hindsight needs an environment with goals, and Pendulum-v1 shows no leaves "
                                     "achieved_goal and desired_goal, but obs"));
  const Outcome idle = train("sac", "Pendulum-v1", "b", {"--set", "sac.hindsight_goals=8"});
  EXPECT_EQ(idle.code, 2);
  EXPECT_THAT(idle.err, HasSubstr("has no effect without sac.hindsight"));
  const Outcome even = train("sac", "Pendulum-v1", "n", {"--set", "sac.priority_beta=0.6"});
  EXPECT_THAT(even.err, HasSubstr("sac.priority_beta = 0.6 (--set): has no effect without sac.priority_alpha"));
  const Outcome wrapped =
      train("dqn", "BitFlipping-v0", "c", {"--set", "dqn.hindsight=future", "--env-wrapper", "frame_skip=2"});
  EXPECT_EQ(wrapped.code, 2);
  EXPECT_THAT(wrapped.err, HasSubstr("no wrapper may change goals or sum up rewards"));
  for (const char* name : {"a", "b"}) EXPECT_FALSE(std::filesystem::exists(folder / name)) << name;
}

}  // namespace
}  // namespace tandem::app
