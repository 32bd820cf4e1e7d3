// The program on an environment with metrics of its own: where their numbers are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Three steps. A right one pays 1; `won` are episodes with three of them.
struct Quiz {
  static rl::MetricsOf<Quiz> metrics() {
    return {{"won", [](const Quiz& it) { return it.right == 3; }, "Share of the games that were won."},
            {"right", [](const Quiz& it) { return it.was_right; }, "Share of right answers.", rl::Over::kSteps},
            {"third", [](const Quiz&) { return 3; }}};
  }
  static rl::Spec spec() {
    return {.id = "Quiz-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}, .max_episode_steps = 3};
  }
  std::array<float, 1> reset(rl::NumpyGenerator&) {
    right = 0;
    return {0};
  }
  rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    was_right = action == 1;
    right += was_right ? 1 : 0;
    return {{static_cast<float>(right)}, static_cast<double>(action)};
  }
  [[nodiscard]] std::string save() const { return std::to_string(right); }
  std::array<float, 1> load(std::span<const std::byte> bytes) {
    right = std::stoi(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return {static_cast<float>(right)};
  }

  int right = 0;
  bool was_right = false;
};

class OwnMetricsProgramTest : public ::testing::Test {
 protected:
  static Outcome run(const std::vector<std::string>& arguments) {
    rl::EnvRegistry environments = rl::EnvRegistry::native();
    environments.add<Quiz>();
    return run_captured(arguments, environments);
  }
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}, const std::string& steps = "128") {
    std::vector<std::string> arguments{
        "train", "--env",         "Quiz-v0", "--run-dir", folder / name,     "--num-envs",    "2", "--rollout-steps",
        "16",    "--total-steps", steps,     "--set",     "policy.hidden=8", "--minibatches", "2", "--epochs",
        "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  JsonValue summary_of(const std::string& name) { return read_json(read_file(folder / name / "summary.json")); }

  TemporaryFolder folder;
};

TEST_F(OwnMetricsProgramTest, ARunTellsThemWhereverItTellsItsReturn) {
  const Outcome trained = train("a", {"--eval-every", "64", "--set", "log.tensorboard=true"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, AllOf(HasSubstr("  won 0."), HasSubstr("  right 0."), Not(HasSubstr("third"))));
  const JsonValue summary = summary_of("a");
  const double won = summary.at("env/won").as_double(), right = summary.at("env/right").as_double();
  EXPECT_TRUE(won > 0 && won < 0.5) << won;
  EXPECT_NEAR(3 * right, summary.at("episode_return_mean").as_double(), 1e-9);
  EXPECT_NEAR(3 * summary.at("eval_env/right").as_double(), summary.at("eval_return_mean").as_double(), 1e-9);
  EXPECT_THAT(read_file(folder / "a/metrics.jsonl"),
              AllOf(HasSubstr("\"env/won\":"), HasSubstr("\"eval_env/third\":3")));
  EXPECT_THAT(read_file(folder / "a/log.txt"), HasSubstr(" over 10 episodes, the best so far, won "));
  bool has_scalars = false;
  for (const auto& file : std::filesystem::directory_iterator(folder / "a")) {
    if (file.path().filename().string().starts_with("events.out"))
      has_scalars = read_file(file.path()).find("env/right") != std::string::npos;
  }
  EXPECT_TRUE(has_scalars);
  EXPECT_THAT(run({"inspect", folder / "a"}).out, AllOf(HasSubstr("  won      0."), HasSubstr("  third    3")));
  EXPECT_EQ(run({"plot", folder / "a", "-o", folder / "won.svg", "--metric", "env/won"}).code, 0);
  EXPECT_THAT(read_file(folder / "won.svg"), HasSubstr("<svg"));
}

TEST_F(OwnMetricsProgramTest, EvaluationsHaveOneValueAnEpisode) {
  ASSERT_EQ(train("a").code, 0);
  const Outcome text = run({"eval", folder / "a", "--episodes", "7"});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("\n  won     "), HasSubstr("\n  right   "), HasSubstr("\n  third   3.00 +- 0.0000")));
  const JsonValue played = read_json(run({"eval", folder / "a", "--episodes", "40", "--json"}).out);
  const JsonValue& right = played.at("metrics").at("right");
  ASSERT_EQ(right.at("values").as_array().size(), 40u);
  for (std::size_t episode = 0; episode < 40; ++episode)
    EXPECT_NEAR(3 * right.at("values").as_array()[episode].as_double(),
                played.at("returns").as_array()[episode].as_double(), 1e-9);
  EXPECT_NEAR(3 * right.at("mean").as_double(), played.at("return_mean").as_double(), 1e-9);
  // An episode that was cut short has none.
  const JsonValue cut = read_json(run({"eval", folder / "a", "--episodes", "4", "--max-steps", "2", "--json"}).out);
  EXPECT_TRUE(cut.at("metrics").at("won").at("values").as_array().empty());
  EXPECT_TRUE(cut.at("metrics").at("won").at("mean").is_null());
}

TEST_F(OwnMetricsProgramTest, AResumedRunHasTheNumbersOfOneThatWasNeverStopped) {
  const std::vector<std::string> steady{"--set", "ppo.learning_rate_schedule=constant"};  // whatever the total is
  ASSERT_EQ(train("a", steady).code, 0);
  ASSERT_EQ(run({"resume", folder / "a", "--total-steps", "256"}).code, 0);
  ASSERT_EQ(train("b", steady, "256").code, 0);
  for (const char* key : {"env/won", "env/right", "episode_return_mean"})
    EXPECT_EQ(summary_of("a").at(key).as_double(), summary_of("b").at(key).as_double()) << key;
  EXPECT_EQ(summary_of("a").at("state_sha256").as_string(), summary_of("b").at("state_sha256").as_string());
}

TEST_F(OwnMetricsProgramTest, TheyAreListedWithTheEnvironment) {
  EXPECT_THAT(run({"envs", "Quiz-v0"}).out,
              AllOf(HasSubstr("  won          Share of the games that were won. (mean over episodes)\n"),
                    HasSubstr("  right        Share of right answers. (mean over steps)\n"),
                    HasSubstr("  third        (mean over episodes)\n")));
  const JsonValue listed = read_json(run({"envs", "Quiz-v0", "--json"}).out).as_array().front();
  EXPECT_EQ(listed.at("metrics").as_array().at(1).at("over").as_string(), "steps");
}

}  // namespace
}  // namespace tandem::app
