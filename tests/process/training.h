// Small runs of `tandem train`, and what they leave in their folders.
//
// Threads: single-thread. Faults of a run are failures of the test that asks for it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tandem/base/json_reader.h"
#include "tests/support/child.h"

namespace tandem::process_test {

/// What is trained: the same settings give the same numbers.
struct Recipe {
  std::string name;
  std::vector<std::string> arguments;  // of `tandem train`
  std::int64_t steps = 0, rows = 0;    // environment steps of the run, and of one update

  friend void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }  // for GoogleTest
};

/// Processes of a run, and the devices of each.
struct Topology {
  int ranks;
  std::string devices;
};

/// PPO on CartPole: discrete actions, with schedules.
Recipe cartpole();
/// PPO on Pendulum: state-dependent noise that is held over updates; observations and rewards normalised.
Recipe pendulum();
/// DD-PPO on CartPole: four environments of as many shards, all in all, with a KL penalty that adapts.
Recipe dd_ppo();
/// The recipe with one more `--set`ting.
Recipe with_setting(Recipe recipe, const std::string& setting);
/// The recipe for another number of environment steps.
Recipe with_steps(Recipe recipe, std::int64_t steps);

/// `tandem` with these arguments, and with a fault armed if one is named: "checkpoint.begin:2:kill".
Command tandem(std::vector<std::string> arguments, const std::string& fault = "");
/// `tandem train` of a recipe into a new folder; a checkpoint after every second update.
Command train(const Recipe& recipe, const std::filesystem::path& folder, const std::string& devices,
              const std::string& fault = "");
/// `tandem resume`, on the given devices.
Command resume(const std::filesystem::path& folder, const std::string& devices, const std::string& fault = "");

/// The same training under another strategy, with these `--set`tings.
Command under_strategy(const std::string& strategy, Command training, const std::vector<std::string>& settings = {});
/// The same command as `ranks` ranks under `tandem launch`; `flags` of the launcher.
Command as_ranks(int ranks, const Command& command, const std::vector<std::string>& flags = {});

/// Runs it; the exit code must be 0.
void expect_success(const Command& command);
/// `tandem inspect` must succeed on the folder, also with --json.
void expect_inspectable(const std::filesystem::path& folder);
/// metrics.jsonl must have one whole line for each of the updates of the summary, in order.
void expect_line_for_every_update(const std::filesystem::path& folder);

/// summary.json of a run that ended.
JsonValue summary_of(const std::filesystem::path& folder);
std::string state_of(const std::filesystem::path& folder);
/// Trains without an interruption on one replica; the state_sha256 at its end.
std::string uninterrupted_state(const Recipe& recipe);

/// Lines of metrics.jsonl so far; 0 when it is not there yet.
std::int64_t updates_in(const std::filesystem::path& folder);
/// Waits until metrics.jsonl has that many lines; false when the child ended before.
bool reaches_update(Child& child, const std::filesystem::path& folder, std::int64_t updates);

}  // namespace tandem::process_test
