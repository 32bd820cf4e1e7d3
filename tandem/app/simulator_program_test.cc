// The program on a simulator of a user's own: options, warm starts, evaluation while it trains, and how it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_options.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Pays 1 for right and 0 for left.
struct Stroll {
  static rl::Spec spec() {
    return {.id = "Stroll-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}, .max_episode_steps = 20};
  }
  std::array<float, 1> reset(rl::NumpyGenerator&) { return {0}; }
  rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    return {{static_cast<float>(action)}, static_cast<double>(action)};
  }
};

struct Falls {
  static rl::Spec spec() {
    rl::Spec its = Stroll::spec();
    its.id = "Falls-v0";
    return its;
  }
  std::array<float, 1> reset(rl::NumpyGenerator& random) { return whole.reset(random); }
  rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    if (++steps > 10) throw std::runtime_error("the simulator fell over");
    return whole.step(action);
  }
  Stroll whole;
  int steps = 0;
};

// Its constructor fails once the spec was asked for.
struct Unmade : Stroll {
  static rl::Spec spec() {
    rl::Spec its = Stroll::spec();
    its.id = "Unmade-v0";
    return its;
  }
  Unmade() { throw std::runtime_error("no licence"); }
};

// Pays 1 a step, for ever.
struct Endless {
  static rl::Spec spec() { return {.id = "Endless-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}}; }
  std::array<float, 1> reset(rl::NumpyGenerator&) { return {0}; }
  rl::StepResult<std::array<float, 1>> step(std::int64_t) { return {{0}, 1}; }
};

// Pays `pay` a step, of so many observations as `width` says.
struct Hall {
  struct Options {
    double pay = 1;
    std::int64_t width = 1;
  };
  static rl::OptionsOf<Options> options() {
    return {{"pay", &Options::pay, "Reward of a step.", {.least = -10, .most = 10}},
            {"width", &Options::width, "Elements that are shown.", {.least = 1, .most = 4}}};
  }
  void configure(const Options& options) { its = options; }
  [[nodiscard]] rl::Spec spec() const {
    return {
        .id = "Hall-v0", .observation = {{.shape = {its.width}}}, .action = rl::Discrete{2}, .max_episode_steps = 8};
  }
  std::vector<float> reset(rl::NumpyGenerator&) { return look(); }
  rl::StepResult<std::vector<float>> step(std::int64_t) { return {look(), its.pay}; }
  [[nodiscard]] std::vector<float> look() const {
    return std::vector<float>(static_cast<std::size_t>(its.width), 1.0F);
  }
  [[nodiscard]] std::string save() const { return "-"; }
  std::vector<float> load(std::span<const std::byte>) { return look(); }

  Options its;
};

class SimulatorProgramTest : public ::testing::Test {
 protected:
  static Outcome run(const std::vector<std::string>& arguments) {
    rl::EnvRegistry environments = rl::EnvRegistry::native();
    environments.add<Stroll>();
    environments.add<Falls>();
    environments.add<Unmade>();
    environments.add<Endless>();
    environments.add<Hall>();
    return run_captured(arguments, environments);
  }
  // A run of one or a few updates; `more` may say something else of a default.
  Outcome train(const std::string& name, const std::string& env, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train", "--env", env, "--run-dir", at(name)};
    for (const auto& [flag, value] : {std::pair{"--num-envs", "2"},
                                      {"--rollout-steps", "16"},
                                      {"--total-steps", "64"},
                                      {"--set", "policy.hidden=8"},
                                      {"--minibatches", "2"},
                                      {"--epochs", "1"}}) {
      const std::string key = std::string(flag) == "--set" ? "policy.hidden=" : flag;
      if (std::ranges::any_of(more, [&](const std::string& word) { return word.starts_with(key); })) continue;
      arguments.insert(arguments.end(), {flag, value});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  std::string at(const std::string& name) { return folder / name; }
  JsonValue summary_of(const std::string& name) { return read_json(read_file(folder / name / "summary.json")); }

  TemporaryFolder folder;
};

TEST_F(SimulatorProgramTest, OptionsOfAnEnvironmentAreListedTrainedWithRecordedAndPlayed) {
  EXPECT_THAT(run({"envs", "Hall-v0"}).out,
              AllOf(HasSubstr("pay          1  (a number, -10 to 10)  Reward of a step."), HasSubstr("width")));
  const std::vector<std::string> given{"--env-option", "pay=uniform(2, 3)",
                                       "--env-option", "width=3",
                                       "--set",        "ppo.learning_rate_schedule=constant"};  // whatever the total is
  ASSERT_EQ(train("a", "Hall-v0", given).code, 0) << train("b", "Hall-v0", given).err;
  EXPECT_THAT(read_file(folder / "a/config.yaml"), HasSubstr("env_options: [\"pay=uniform(2, 3)\", width=3]"));
  const double mean = read_json(read_file(folder / "a/summary.json")).at("episode_return_mean").as_double();
  EXPECT_TRUE(mean > 16 && mean < 24) << mean;
  const auto played = [&](const std::vector<std::string>& more) {
    std::vector<std::string> eval{"eval", at("a"), "--episodes", "4", "--json"};
    eval.insert(eval.end(), more.begin(), more.end());
    const Outcome outcome = run(eval);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_json(outcome.out).at("return_mean").as_double();
  };
  EXPECT_TRUE(played({}) > 16 && played({}) < 24);
  EXPECT_EQ(played({"--env-option", "pay=-1"}), -8);
  // A run that goes on has them too, with the same bits as one that was never stopped.
  const std::vector<std::string> longer{"--total-steps", "128"};
  ASSERT_EQ(run({"resume", at("a"), "--total-steps", "128"}).code, 0);
  std::vector<std::string> whole = given;
  whole.insert(whole.end(), longer.begin(), longer.end());
  ASSERT_EQ(train("c", "Hall-v0", whole).code, 0);
  const auto state = [&](const char* name) {
    return read_json(read_file(folder / name / "summary.json")).at("state_sha256").as_string();
  };
  EXPECT_EQ(state("a"), state("c"));
}

TEST_F(SimulatorProgramTest, WrappersAreListedTrainedWithRecordedAndPlayed) {
  EXPECT_THAT(run({"envs", "Hall-v0"}).out,
              AllOf(HasSubstr("--env-wrapper NAME=VALUE"), HasSubstr("frame_skip=N[:max]")));
  EXPECT_THAT(run({"check", "Hall-v0", "--env-wrapper", "frame_stack=3", "--steps", "100"}).out,
              HasSubstr("obs float32[3, 1]"));
  const std::vector<std::string> given{"--env-wrapper",  "frame_skip=2", "--env-wrapper",
                                       "reward_scale=3", "--set",        "ppo.learning_rate_schedule=constant"};
  ASSERT_EQ(train("a", "Hall-v0", given).code, 0) << train("b", "Hall-v0", given).err;
  EXPECT_THAT(read_file(folder / "a/config.yaml"), HasSubstr("env_wrappers: [frame_skip=2, reward_scale=3]"));
  const JsonValue trained = summary_of("a");
  EXPECT_EQ(trained.at("episode_return_mean").as_double(), 24);
  EXPECT_EQ(trained.at("episode_length_mean").as_double(), 4);
  EXPECT_EQ(trained.at("env/unwrapped_return").as_double(), 8);
  const Outcome played = run({"eval", at("a"), "--episodes", "2", "--json"});
  ASSERT_EQ(played.code, 0) << played.err;
  EXPECT_EQ(read_json(played.out).at("return_mean").as_double(), 24);
  const Outcome resumed = run({"resume", at("a"), "--total-steps", "128"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  std::vector<std::string> whole = given;
  whole.insert(whole.end(), {"--total-steps", "128"});
  ASSERT_EQ(train("c", "Hall-v0", whole).code, 0);
  EXPECT_EQ(summary_of("a").at("state_sha256").as_string(), summary_of("c").at("state_sha256").as_string());
}

TEST_F(SimulatorProgramTest, WrappersThatDoNotFitAreToldBeforeAnyWork) {
  const Outcome wrong = train("a", "Hall-v0", {"--env-wrapper", "time_limt=2", "--env-wrapper", "reward_scale=0"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("env_wrappers"), HasSubstr("did you mean 'time_limit'?"), HasSubstr("not 0")));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  const Outcome option = train("a", "Hall-v0", {"--env-option", "width=9", "--env-wrapper", "grey"});
  EXPECT_THAT(option.err, AllOf(HasSubstr("env_options"), ::testing::Not(HasSubstr("grey:"))));
  const std::string yaml = at("a.yaml");
  write_file(yaml,
             "env: Hall-v0\nenv_wrappers: [frame_stack: 2, flatten, reward_clip: -1..0.5]\ntotal_steps: 32\n"
             "rollout_steps: 16\nnum_envs: 2\n");
  const Outcome from_file = run({"train", yaml, "--run-dir", at("y"), "--minibatches", "2"});
  ASSERT_EQ(from_file.code, 0) << from_file.err;
  EXPECT_EQ(summary_of("y").at("episode_return_mean").as_double(), 4);
  EXPECT_THAT(read_file(folder / "y/config.yaml"),
              HasSubstr("env_wrappers: [frame_stack=2, flatten, reward_clip=-1..0.5]"));
}

TEST_F(SimulatorProgramTest, OptionsThatAnEnvironmentDoesNotTakeAreToldBeforeAnyWork) {
  const Outcome wrong =
      train("a", "Hall-v0", {"--env-option", "pya=1", "--env-option", "width=9", "--env-option", "pay"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'pay' is no NAME=VALUE, as in gravity=5"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  const Outcome other = train("a", "Hall-v0", {"--env-option", "pya=1", "--env-option", "width=9"});
  EXPECT_THAT(other.err, AllOf(HasSubstr("pya=1: Hall-v0 has no such option; did you mean 'pay'?"),
                               HasSubstr("width=9: takes an integer from 1 to 4")));
  EXPECT_THAT(train("a", "Stroll-v0", {"--env-option", "pay=1"}).err, HasSubstr("pay=1: Stroll-v0 has no options"));
  const std::string yaml = at("a.yaml");
  write_file(yaml, "env: Hall-v0\nenv_options: {pay: 2, width: 2}\ntotal_steps: 32\nrollout_steps: 16\nnum_envs: 2\n");
  const Outcome from_file = run({"train", yaml, "--run-dir", at("y"), "--minibatches", "2"});
  ASSERT_EQ(from_file.code, 0) << from_file.err;
  EXPECT_EQ(read_json(read_file(folder / "y/summary.json")).at("episode_return_mean").as_double(), 16);
}

TEST_F(SimulatorProgramTest, ARunBeginsWithWhatAnotherOneLearned) {
  const std::vector<std::string> normalised{"--set", "normalize.observations=true"};
  ASSERT_EQ(train("a", "Stroll-v0", normalised).code, 0);
  ASSERT_EQ(run({"export", at("a"), "-o", at("p.pt")}).code, 0);
  // No step is made of this size, so the policy is that of the source: of another algorithm, with another rate.
  const auto warm = [&](const std::string& name, const std::string& from, std::vector<std::string> more) {
    more.insert(more.end(), {"--init-from", from, "--set", "ppo.learning_rate=1e-30"});
    return train(name, "Stroll-v0", more);
  };
  const Outcome begun = warm("b", at("a"), normalised);
  ASSERT_EQ(begun.code, 0) << begun.err;
  const auto params = [&](const char* name) {
    return read_json(read_file(folder / name / "summary.json")).at("params_sha256").as_string();
  };
  EXPECT_EQ(params("a"), params("b"));
  EXPECT_THAT(read_file(folder / "b/log.txt"), AllOf(HasSubstr("the policy: "), HasSubstr("tensors are taken"),
                                                     HasSubstr("the normaliser 'observation")));
  // It goes on without its source.
  std::filesystem::rename(folder / "a", folder / "moved");
  EXPECT_EQ(run({"resume", at("b"), "--total-steps", "96"}).code, 0);
  std::filesystem::rename(folder / "moved", folder / "a");
  EXPECT_EQ(train("c", "Stroll-v0",
                  {"--init-from", at("a"), "--set", "normalize.observations=true", "--set", "init_normalizers=false"})
                .code,
            0);
  EXPECT_THAT(read_file(folder / "c/log.txt"), HasSubstr("is not taken, as init_normalizers says"));

  EXPECT_THAT(warm("d", at("a"), {"--set", "normalize.observations=false"}).err,
              HasSubstr("its policy saw normalised observations"));
  EXPECT_THAT(warm("d", at("p.safetensors"), normalised).err,
              AllOf(HasSubstr("without the counts to go on from"), HasSubstr("init_normalizers: false")));
  EXPECT_EQ(train("file", "Stroll-v0",
                  {"--init-from", at("p.safetensors"), "--set", "normalize.observations=true", "--set",
                   "init_normalizers=false"})
                .code,
            0);
  EXPECT_THAT(read_file(folder / "file/log.txt"), AllOf(HasSubstr("tensors are taken"), HasSubstr("begins anew")));
  EXPECT_THAT(warm("d", at("p.pt"), normalised).err, HasSubstr("is a script for inference"));
  EXPECT_THAT(warm("d", at("nowhere"), normalised).err, HasSubstr("neither a run folder"));
  EXPECT_THAT(train("d", "Stroll-v0",
                    {"--init-from", at("a"), "--set", "normalize.observations=true", "--set", "policy.hidden=9"})
                  .err,
              HasSubstr("its 'parameters.actor.0.weight' is Float[8, 1], and this run's is Float[9, 1]"));
  EXPECT_FALSE(std::filesystem::exists(folder / "d"));
  // A file of weights of a policy that saw observations as they are.
  const std::vector<std::string> plain{"--set", "normalize.observations=false"};
  ASSERT_EQ(train("plain", "Stroll-v0", plain).code, 0);
  ASSERT_EQ(run({"export", at("plain"), "-o", at("q.safetensors")}).code, 0);
  ASSERT_EQ(warm("e", at("q.safetensors"), plain).code, 0);
  EXPECT_EQ(params("e"), params("plain"));
}

TEST_F(SimulatorProgramTest, EvaluationWhileItTrainsChangesNoBitOfTheTraining) {
  const auto state = [&](const std::string& name) {
    return read_json(read_file(folder / name / "summary.json")).at("state_sha256").as_string();
  };
  const std::vector<std::string> eval{"--eval-every", "32", "--set", "eval.episodes=3"};
  for (const std::vector<std::string>& algorithm :
       {std::vector<std::string>{"--set", "normalize.observations=true", "--minibatches", "2"},
        std::vector<std::string>{"--algo", "impala", "--set", "impala.execution=inline", "--set", "impala.workers=1"},
        std::vector<std::string>{"--algo", "appo", "--set", "impala.execution=inline", "--set", "impala.workers=1"}}) {
    SCOPED_TRACE(algorithm.back());
    const auto trained = [&](const std::string& name, const std::vector<std::string>& more) {
      std::vector<std::string> arguments{
          "train",      "--env", "Stroll-v0",       "--run-dir", at(name),
          "--num-envs", "2",     "--rollout-steps", "16",        "--total-steps",
          "128",        "--set", "policy.hidden=8", "--set",     "checkpoint.every_seconds=none"};
      arguments.insert(arguments.end(), algorithm.begin(), algorithm.end());
      arguments.insert(arguments.end(), more.begin(), more.end());
      return run(arguments);
    };
    const Outcome without = trained("without", {}), with = trained("with", eval);
    ASSERT_EQ(without.code, 0) << without.err;
    ASSERT_EQ(with.code, 0) << with.err;
    EXPECT_EQ(state("without"), state("with"));
    const JsonValue summary = read_json(read_file(folder / "with/summary.json"));
    EXPECT_EQ(summary.at("eval_length_mean").as_double(), 20);
    EXPECT_GE(summary.at("eval_return_best").as_double(), summary.at("eval_return_mean").as_double());
    for (const char* name : {"without", "with"}) std::filesystem::remove_all(folder / name);
  }
}

TEST_F(SimulatorProgramTest, TheBestEvaluationsPolicyIsKeptAndATargetEndsTheRun) {
  const std::vector<std::string> eval{"--eval-every", "32", "--set", "eval.episodes=3", "--set", "eval.stop_at=-1"};
  const Outcome trained = train("a", "Stroll-v0", eval);
  ASSERT_EQ(trained.code, 0);
  const std::string reason = "stopped by eval.stop_at = -1 (an evaluation's mean return is ";
  EXPECT_THAT(trained.out, HasSubstr("Stroll-v0 " + reason));
  const JsonValue summary = read_json(read_file(folder / "a/summary.json"));
  EXPECT_EQ(summary.at("end").as_string(), "finished");
  EXPECT_THAT(summary.at("reason").as_string(), HasSubstr(reason));
  EXPECT_EQ(summary.at("reached_return").as_double(), summary.at("eval_return_mean").as_double());
  EXPECT_THAT(run({"inspect", at("a")}).out, ContainsRegex("state    stopped by eval.stop_at = -1 .* after 32 steps"));
  EXPECT_EQ(summary.at("env_steps").as_int64(), 32);  // of 64
  EXPECT_THAT(read_file(folder / "a/log.txt"), HasSubstr("eval.stop_at -1 is reached: the run ends"));
  const JsonValue played = read_json(run({"eval", at("a/best"), "--episodes", "3", "--json"}).out);
  EXPECT_EQ(played.at("return_mean").as_double(), summary.at("eval_return_best").as_double());
  EXPECT_THAT(read_file(folder / "a/metrics.jsonl"), HasSubstr("eval_return_mean"));
}

TEST_F(SimulatorProgramTest, ARunThatReachedItsTargetIsLeftAsItIsUntilThatIsTakenBack) {
  const std::vector<std::string> eval{"--eval-every", "32", "--set", "eval.episodes=3", "--set", "eval.stop_at=-1"};
  ASSERT_EQ(train("a", "Stroll-v0", eval).code, 0);
  const Outcome left = run({"resume", at("a")});
  EXPECT_EQ(left.code, 0) << left.err;
  EXPECT_THAT(left.out,
              AllOf(HasSubstr("was stopped by eval.stop_at = -1"), HasSubstr("--set eval.stop_at=none` goes on")));
  EXPECT_EQ(read_json(read_file(folder / "a/summary.json")).at("env_steps").as_int64(), 32);
  ASSERT_EQ(run({"resume", at("a"), "--set", "eval.stop_at=none"}).code, 0);
  const JsonValue summary = read_json(read_file(folder / "a/summary.json"));
  EXPECT_EQ(summary.at("env_steps").as_int64(), 64);
  EXPECT_EQ(summary.find("reason"), nullptr);
}

TEST_F(SimulatorProgramTest, SettingsOfAnEvaluationThatNeverComesAreRefused) {
  for (const char* setting : {"eval.stop_at=1", "eval.episodes=3", "eval.deterministic=false", "eval.max_steps=9"}) {
    const Outcome refused = train("a", "Stroll-v0", {"--set", setting});
    EXPECT_EQ(refused.code, 2) << setting;
    EXPECT_THAT(refused.err, HasSubstr("has no effect without eval.every_steps")) << setting;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_F(SimulatorProgramTest, ARunThatFailedBeforeItsFirstUpdateSaysSoAndWhy) {
  ASSERT_EQ(train("first", "Falls-v0").code, 3);   // in its first rollout
  ASSERT_EQ(train("begin", "Unmade-v0").code, 3);  // before it
  for (const auto& [name, why] : {std::pair("first", "the simulator fell over"), std::pair("begin", "no licence")}) {
    SCOPED_TRACE(name);
    const JsonValue summary = read_json(read_file(folder / name / "summary.json"));
    EXPECT_EQ(summary.at("end").as_string(), "failed");
    EXPECT_EQ(summary.at("updates").as_int64(), 0);
    EXPECT_THAT(summary.at("failure").as_string(), HasSubstr(why));
    EXPECT_THAT(run({"inspect", at(name)}).out,
                AllOf(HasSubstr("state    failed after 0 steps, 0 updates"), HasSubstr(why)));
  }
}

TEST_F(SimulatorProgramTest, EpisodesThatNeverEndAreCutShortAndCounted) {
  ASSERT_EQ(train("a", "Endless-v0").code, 0);
  const std::vector<std::string> eval{"eval", at("a"), "--episodes", "3", "--max-steps", "50"};
  const Outcome told = run(eval);
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("3 of 3 had not ended after 50 steps and were cut short there"));
  std::vector<std::string> as_json = eval;
  as_json.emplace_back("--json");
  const JsonValue played = read_json(run(as_json).out);
  EXPECT_EQ(played.at("cut_short").as_int64(), 3);
  EXPECT_EQ(played.at("return_mean").as_double(), 50);
}

}  // namespace
}  // namespace tandem::app
