// The program as its users meet it: what it does, prints and returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Right is 1 and left is 0; after ten steps it does what its name says.
enum class Trouble { kNone, kNan, kThrow };
template <Trouble kTrouble>
struct Walk {
  static rl::Spec spec() {
    constexpr std::array<const char*, 3> kNames{"Walk-v0", "Nan-v0", "Throw-v0"};
    return {.id = kNames[static_cast<std::size_t>(kTrouble)],
            .observation = {{.shape = {1}}},
            .action = rl::Discrete{2},
            .max_episode_steps = 20,
            .reward_threshold = 15};
  }
  std::array<float, 1> reset(rl::NumpyGenerator&) { return {0}; }
  rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    ++steps;
    if (steps > 10 && kTrouble == Trouble::kThrow) throw std::runtime_error("the simulator fell over");
    if (steps > 10 && kTrouble == Trouble::kNan) return {{std::nanf("")}, 0};
    return {{static_cast<float>(action)}, static_cast<double>(action)};
  }
  int steps = 0;
};

// Shows nothing, and pays what the action is: all that can change from step to step is what is remembered.
struct Echo {
  static rl::Spec spec() {
    return {.id = "Echo-v0", .observation = {{.shape = {1}}}, .action = rl::Box{{-10}, {10}}, .max_episode_steps = 7};
  }
  std::array<float, 1> reset(rl::NumpyGenerator&) { return {1}; }
  rl::StepResult<std::array<float, 1>> step(std::span<const float> action) { return {{1}, action[0]}; }
  std::string save() const { return "-"; }
  std::array<float, 1> load(std::span<const std::byte>) { return {1}; }
};

class ProgramTest : public ::testing::Test {
 protected:
  static Outcome run(const std::vector<std::string>& arguments) {
    rl::EnvRegistry environments = rl::EnvRegistry::native();
    environments.add<Walk<Trouble::kNone>>();
    environments.add<Walk<Trouble::kNan>>();
    environments.add<Walk<Trouble::kThrow>>();
    environments.add<Echo>();
    return run_captured(arguments, environments);
  }
  // A run of one or a few updates.
  Outcome train(const std::string& name, const std::string& env, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"train", "--env", env, "--run-dir", at(name), "--num-envs", "2"};
    arguments.insert(arguments.end(), {"--rollout-steps", "16", "--total-steps", "64", "--set", "policy.hidden=8"});
    arguments.insert(arguments.end(), {"--minibatches", "2", "--epochs", "1"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  std::string at(const std::string& name) { return folder / name; }
  std::string file(const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return at(name);
  }

  TemporaryFolder folder;
};

TEST_F(ProgramTest, ARunLeavesAFolderThatEveryOtherCommandUnderstands) {
  const Outcome trained = train("a", "Walk-v0", {"--seed", "3"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("Walk-v0 finished after 64 steps"), HasSubstr("tandem eval")));
  const RunPaths paths{folder / "a"};
  for (const auto& path : {paths.config(), paths.metrics(), paths.summary(), paths.curve(), paths.log()}) {
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
  EXPECT_EQ(read_json(read_file(paths.summary())).at("env_steps").as_int64(), 64);

  const Outcome played = run({"eval", at("a"), "--episodes", "5", "--json"});
  ASSERT_EQ(played.code, 0) << played.err;
  const JsonValue evaluation = read_json(played.out);
  EXPECT_EQ(evaluation.at("returns").as_array().size(), 5u);
  EXPECT_EQ(evaluation.at("length_mean").as_double(), 20);

  EXPECT_THAT(run({"inspect", at("a")}).out, AllOf(HasSubstr("Walk-v0 with ppo, seed 3"), HasSubstr("checkpoints/u")));
  const JsonValue inspected = read_json(run({"inspect", at("a"), "--json"}).out);
  const std::string checkpoint = inspected.at("checkpoints").as_array().at(0).at("folder").as_string();
  EXPECT_THAT(run({"inspect", checkpoint}).out, HasSubstr("parameters.actor.0.weight  Float[8, 1]"));
  EXPECT_EQ(read_json(run({"inspect", checkpoint, "--json"}).out).at("kind").as_string(), "ppo");
  EXPECT_EQ(run({"eval", checkpoint, "--episodes", "1"}).code, 0);

  EXPECT_EQ(run({"plot", at("a"), "-o", at("c.svg")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(at("c.svg")));
  EXPECT_EQ(run({"export", at("a"), "-o", at("p.pt")}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(at("p.pt")) && std::filesystem::exists(at("p.safetensors")));
}

TEST_F(ProgramTest, AResumedRunEndsWithTheNumbersOfALongerOne) {
  ASSERT_EQ(train("whole", "CartPole-v1", {"--total-steps=128"}).code, 2);  // given twice: a fault, not the last one
  const std::vector<std::string> more{"--set", "ppo.learning_rate_schedule=constant", "--set",
                                      "ppo.clip_range_schedule=constant"};
  ASSERT_EQ(train("part", "CartPole-v1", more).code, 0);
  const Outcome resumed = run({"resume", at("part"), "--total-steps", "128"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const JsonValue summary = read_json(read_file(folder / "part/summary.json"));
  EXPECT_EQ(summary.at("env_steps").as_int64(), 128);
  EXPECT_EQ(summary.at("resumed").as_string(), "exactly");
  const std::string config = read_file(folder / "part/config.yaml");
  EXPECT_THAT(config, HasSubstr("total_steps: 128"));
}

TEST_F(ProgramTest, APolicyThatRemembersIsTrainedResumedPlayedAndExported) {
  ASSERT_EQ(train("a", "Echo-v0", {"--set", "policy.recurrent=gru", "--set", "policy.policy_gain=1"}).code, 0);
  EXPECT_EQ(run({"resume", at("a"), "--total-steps", "128"}).code, 0);
  EXPECT_EQ(read_json(read_file(folder / "a/summary.json")).at("resumed").as_string(), "exactly");
  // More episodes than are played at once: the later ones remember nothing of those before them.
  const JsonValue played = read_json(run({"eval", at("a"), "--episodes", "40", "--json"}).out);
  EXPECT_NE(played.at("return_mean").as_double(), 0);
  EXPECT_EQ(played.at("return_min").as_double(), played.at("return_max").as_double());
  EXPECT_EQ(run({"export", at("a"), "-o", at("p.safetensors")}).code, 0);
  const Outcome script = run({"export", at("a"), "-o", at("p.pt")});
  EXPECT_EQ(script.code, 2);
  EXPECT_THAT(script.err, HasSubstr("has no place for what it remembers"));
}

TEST_F(ProgramTest, AFinishedRunIsLeftAsItIs) {
  ASSERT_EQ(train("a", "CartPole-v1").code, 0);
  const std::string before = read_file(folder / "a/summary.json");
  const Outcome resumed = run({"resume", at("a")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("has made its 64 steps"));
  EXPECT_EQ(read_file(folder / "a/summary.json"), before);
}

TEST_F(ProgramTest, MetricsGoToTensorBoardWhereThatIsAskedFor) {
  const auto event_files = [this] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "a"))
      files += entry.path().filename().string().starts_with("events.out.tfevents") && entry.file_size() > 0 ? 1 : 0;
    return files;
  };
  ASSERT_EQ(train("a", "CartPole-v1", {"--set", "log.tensorboard=true"}).code, 0);
  EXPECT_EQ(event_files(), 1);
}

TEST_F(ProgramTest, ADamagedSummaryIsNamedAndWrittenAnew) {
  ASSERT_EQ(train("a", "CartPole-v1").code, 0);
  write_file(folder / "a/summary.json", "{\"upd");
  const Outcome looked = run({"inspect", at("a")});
  EXPECT_EQ(looked.code, 3);
  EXPECT_THAT(looked.err, HasSubstr("summary.json"));
  EXPECT_EQ(run({"resume", at("a")}).code, 0);
  EXPECT_EQ(read_json(read_file(folder / "a/summary.json")).at("env_steps").as_int64(), 64);
}

TEST_F(ProgramTest, StepsAreNotTakenBack) {
  ASSERT_EQ(train("a", "CartPole-v1").code, 0);
  const std::string before = read_file(folder / "a/config.yaml");
  const Outcome resumed = run({"resume", at("a"), "--total-steps", "32"});
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("has made 64 environment steps already"));
  EXPECT_EQ(read_file(folder / "a/config.yaml"), before);
}

TEST_F(ProgramTest, ARunWhoseSummaryIsMissingGetsOneFromItsLastMetrics) {
  ASSERT_EQ(train("a", "Walk-v0").code, 0);
  const JsonValue before = read_json(read_file(folder / "a/summary.json"));
  std::filesystem::remove(folder / "a/summary.json");
  ASSERT_EQ(run({"resume", at("a")}).code, 0);
  const JsonValue after = read_json(read_file(folder / "a/summary.json"));
  EXPECT_EQ(after.at("state_sha256").as_string(), before.at("state_sha256").as_string());
  EXPECT_EQ(after.at("episode_return_mean").as_double(), before.at("episode_return_mean").as_double());
  EXPECT_EQ(after.at("env_steps_per_s").as_double(), before.at("env_steps_per_s").as_double());
}

TEST_F(ProgramTest, TheEnvironmentsAndTheirSettingsAreListed) {
  EXPECT_THAT(run({"envs"}).out, AllOf(HasSubstr("CartPole-v1"), HasSubstr("Walk-v0"), HasSubstr("Discrete(2)"),
                                       HasSubstr("MuJoCo"), HasSubstr("through Python\ngymnasium:ID")));
  EXPECT_THAT(run({"envs", "CartPole-v1"}).out, HasSubstr("learning_rate"));
  const JsonValue listed = read_json(run({"envs", "--json"}).out);
  EXPECT_EQ(listed.as_array().size(), 16 + rl::mujoco_entries().size());
  const auto action_of = [&](const std::string& name) {
    for (const JsonValue& one : listed.as_array()) {
      if (one.at("name").as_string() == name) return one.at("action");
    }
    throw std::out_of_range(name);
  };
  EXPECT_EQ(action_of("Walk-v0").at("n").as_array().at(0).as_int64(), 2);
  EXPECT_EQ(action_of("Echo-v0").at("type").as_string(), "box");
  EXPECT_EQ(action_of("Echo-v0").at("low").as_array().at(0).as_double(), -10);
  EXPECT_THAT(run({"envs", "Catch-v0"}).out,
              AllOf(HasSubstr("settings for appo"), HasSubstr("settings for impala"), HasSubstr("settings for ppo")));
  EXPECT_EQ(read_json(run({"version", "--json"}).out).as_object().front().first, "tandem");
}

TEST_F(ProgramTest, CheckFailsOnFaultsAloneAndSaysWhatItSaw) {
  const Outcome fine = run({"check", "CartPole-v1", "--steps", "300"});
  EXPECT_EQ(fine.code, 0) << fine.out << fine.err;
  EXPECT_THAT(fine.out, AllOf(HasSubstr("CartPole-v1: 1.20k random steps"), HasSubstr("nothing was found")));
  const Outcome broken = run({"check", "Nan-v0", "--json"});
  EXPECT_EQ(broken.code, 2);
  const JsonValue found = read_json(broken.out).at("findings").as_array().at(0);
  EXPECT_EQ(found.at("weight").as_string(), "fault");
  EXPECT_THAT(found.at("text").as_string(), HasSubstr("is nan"));
  EXPECT_EQ(run({"check", "Nowhere-v0"}).code, 2);
}

TEST_F(ProgramTest, DevicesThatAreNotThereAreOneFaultAlsoWhereShardsAreGiven) {
  const Outcome refused = run({"train", "--env", "CartPole-v1", "--devices", "gpu:0", "--shards", "2"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("devices = gpu:0"), ::testing::Not(HasSubstr("shards = 2"))));
}

TEST_F(ProgramTest, AnEnvironmentThatFailsEndsTheRunWithItsName) {
  const Outcome nan = train("nan", "Nan-v0");
  EXPECT_EQ(nan.code, 3);
  EXPECT_THAT(nan.err, HasSubstr("Nan-v0"));
  const Outcome thrown = train("throw", "Throw-v0");
  EXPECT_EQ(thrown.code, 3);
  EXPECT_THAT(thrown.err, AllOf(HasSubstr("Throw-v0"), HasSubstr("the simulator fell over")));
  EXPECT_THAT(read_file(folder / "throw/log.txt"), HasSubstr("the simulator fell over"));
}

TEST_F(ProgramTest, ADamagedCheckpointIsNamedAndTheRunFolderStaysAsItIs) {
  ASSERT_EQ(train("a", "Walk-v0").code, 0);
  const JsonValue run_json = read_json(run({"inspect", at("a"), "--json"}).out);
  const std::filesystem::path checkpoint = run_json.at("checkpoints").as_array().back().at("folder").as_string();
  const std::filesystem::path part = checkpoint / "state.safetensors";
  const std::string whole = read_file(part);
  const std::string metrics = read_file(folder / "a/metrics.jsonl");
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 4);
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), flipped, std::string()}) {
    write_file(part, damaged);
    for (const char* command : {"resume", "eval"}) {
      const Outcome outcome = run({command, at("a")});
      EXPECT_EQ(outcome.code, 3);
      EXPECT_THAT(outcome.err, HasSubstr("state.safetensors"));
    }
  }
  EXPECT_EQ(read_file(folder / "a/metrics.jsonl"), metrics);
  write_file(part, whole);
  EXPECT_EQ(run({"resume", at("a"), "--total-steps", "96"}).code, 0);
}

}  // namespace
}  // namespace tandem::app
