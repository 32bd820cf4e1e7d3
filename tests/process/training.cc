#include "training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {

namespace fs = std::filesystem;

Recipe cartpole() {
  return {"CartPole",
          {"--env", "CartPole-v1", "--seed", "11", "--shards", "4", "--num-envs", "8", "--rollout-steps", "32",
           "--epochs", "2", "--minibatches", "2", "--set", "policy.hidden=16,16"},
          8192,
          256};
}

Recipe pendulum() {
  return {"Pendulum",
          {"--env",           "Pendulum-v1",
           "--seed",          "12",
           "--shards",        "4",
           "--num-envs",      "4",
           "--rollout-steps", "64",
           "--epochs",        "2",
           "--minibatches",   "2",
           "--set",           "policy.hidden=16,16",
           "--set",           "policy.head=state_dependent_noise",
           "--set",           "policy.sde_sample_freq=6",
           "--set",           "normalize.observations=true",
           "--set",           "normalize.rewards=true"},
          8192,
          256};
}

Recipe dd_ppo() {
  return {"DD-PPO",
          {"--algo",
           "dd_ppo",
           "--env",
           "CartPole-v1",
           "--seed",
           "21",
           "--shards",
           "4",
           "--num-envs",
           "4",
           "--rollout-steps",
           "50",
           "--minibatch-size",
           "40",
           "--epochs",
           "2",
           "--set",
           "policy.hidden=16,16",
           "--set",
           "ppo.kl_coef=0.2",
           "--set",
           "ppo.kl_coef_target=0.0005"},
          4000,
          200};
}

Recipe with_setting(Recipe recipe, const std::string& setting) {
  recipe.arguments.insert(recipe.arguments.end(), {"--set", setting});
  return recipe;
}

Recipe with_steps(Recipe recipe, std::int64_t steps) {
  recipe.steps = steps;
  return recipe;
}

Command tandem(std::vector<std::string> arguments, const std::string& fault) {
  Command command{TANDEM_PROGRAM, std::move(arguments)};
  if (!fault.empty()) command.environment.push_back("TANDEM_FAULT=" + fault);
  return command;
}

Command train(const Recipe& recipe, const fs::path& folder, const std::string& devices, const std::string& fault) {
  std::vector<std::string> arguments{"train"};
  arguments.insert(arguments.end(), recipe.arguments.begin(), recipe.arguments.end());
  for (const std::string& more :
       {std::string("--total-steps"), std::to_string(recipe.steps), std::string("--devices"), devices,
        std::string("--run-dir"), folder.string(), std::string("--set"), std::string("checkpoint.every_updates=2")}) {
    arguments.push_back(more);
  }
  return tandem(std::move(arguments), fault);
}

Command resume(const fs::path& folder, const std::string& devices, const std::string& fault) {
  return tandem({"resume", folder.string(), "--devices", devices}, fault);
}

Command under_strategy(const std::string& strategy, Command training, const std::vector<std::string>& settings) {
  training.arguments.insert(training.arguments.end(), {"--strategy", strategy});
  for (const std::string& setting : settings) training.arguments.insert(training.arguments.end(), {"--set", setting});
  return training;
}

Command as_ranks(int ranks, const Command& command, const std::vector<std::string>& flags) {
  Command launched = command;
  launched.program = TANDEM_PROGRAM;
  launched.arguments = {"launch", "--ranks", std::to_string(ranks)};
  launched.arguments.insert(launched.arguments.end(), flags.begin(), flags.end());
  launched.arguments.insert(launched.arguments.end(), {"--", command.program.string()});
  launched.arguments.insert(launched.arguments.end(), command.arguments.begin(), command.arguments.end());
  return launched;
}

void expect_success(const Command& command) {
  const Ended ended = run(command);
  if (ended.exit_code == 0) return;
  // Without this run there is nothing to look at: the test ends here.
  throw std::runtime_error(
      concat("exit code ", ended.exit_code, ", signal ", ended.signal, "\n", ended.out, ended.err));
}

void expect_inspectable(const fs::path& folder) {
  const Ended text = run(tandem({"inspect", folder.string()}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::HasSubstr("run " + folder.string()));
  const Ended json = run(tandem({"inspect", folder.string(), "--json"}));
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ(read_json(json.out).at("folder").as_string(), folder.string());
}

void expect_line_for_every_update(const fs::path& folder) {
  const std::string text = read_file(folder / "metrics.jsonl");
  EXPECT_TRUE(text.ends_with('\n')) << "a torn line ends it";
  std::istringstream lines(text);
  std::int64_t expected = 0;
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(read_json(line).at("updates").as_int64(), ++expected);
  EXPECT_EQ(summary_of(folder).at("updates").as_int64(), expected);
}

JsonValue summary_of(const fs::path& folder) { return read_json(read_file(folder / "summary.json")); }

std::string state_of(const fs::path& folder) { return summary_of(folder).at("state_sha256").as_string(); }

std::string uninterrupted_state(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(train(recipe, scratch / "run", "cpu:1"));
  return state_of(scratch / "run");
}

std::int64_t updates_in(const fs::path& folder) {
  if (!fs::exists(folder / "metrics.jsonl")) return 0;
  const std::string text = read_file(folder / "metrics.jsonl");
  return std::count(text.begin(), text.end(), '\n');
}

bool reaches_update(Child& child, const fs::path& folder, std::int64_t updates) {
  const Deadline deadline = Deadline::after(kPatience);
  while (updates_in(folder) < updates) {
    if (!child.is_running()) return false;
    if (deadline.expired()) throw std::runtime_error(concat("no update ", updates, " within the patience"));
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return child.is_running();
}

}  // namespace tandem::process_test
