// app/config/algorithm.h: what the program knows of a learning algorithm, and the algorithms that it has.
//
// An algorithm is a class of its own beside its library code, in one file. A program of yours adds one with
// register_algorithm() (app/algo/algorithms.h) before run_program():
//
//   class Evolution final : public Algorithm {
//     std::string name() const override { return "evolution"; }
//     void add_options(OptionTable& table, TrainOptions& options) const override {
//       table.add("evolution.sigma", options.of<EvolutionOptions>().sigma, "Of a mutation.").only_with("algo", name());
//     }
//     ...
//   };
//
// The program asks the algorithm that `algo` names, and no other; only add_options() is called on all of them. Settings
// shipped for an algorithm are those of configs/presets/<name>.
//
// Threads: all are registered before the first option table is made; from then on from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/knob.h"
#include "tandem/app/config/option_rules.h"
#include "tandem/app/config/train_options.h"

namespace tandem::learner {
class Ranks;
}
namespace tandem::pipeline {
struct PipelineReport;
}
namespace tandem::rl {
class EnvRegistry;
class RestartBudget;
class TrainingRun;
}  // namespace tandem::rl

namespace tandem::app {

/// The rows that come to a learner at once.
struct BatchSize {
  std::int64_t env_steps = 0;   // at least, where `may_be_larger`
  std::int64_t per_update = 1;  // such batches from one line of metrics to the next
  bool may_be_larger = false;
};

/// Where a run is to train. All outlive the making of a run.
struct RunPlan {
  const TrainOptions& options;  // whose shards are resolved
  const rl::EnvRegistry& environments;
  const learner::Ranks& ranks;
  std::shared_ptr<rl::RestartBudget> restarts;  // of environments, where they are made anew; else null
};

/// The environments that options are checked against, and the number of ranks. `environments` outlives the checks; the
/// options' plugins are not loaded into it.
struct CheckPlace {
  const rl::EnvRegistry& environments;
  int ranks = 1;
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  /// The word for `algo`.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Adds its options, which lie in options.of<Type>(), under keys with a section of their own.
  virtual void add_options(OptionTable& table, TrainOptions& options) const = 0;
  /// Adds the faults of its options that do not go together, or not with those of the program.
  virtual void check(Rules&) const {}
  /// Returns its checks that need the environment or the ranks; see Surroundings::checks.
  [[nodiscard]] virtual std::vector<OptionCheck> checks(const CheckPlace&) const { return {}; }

  [[nodiscard]] virtual BatchSize batch_size(const TrainOptions& options) const = 0;
  /// Describes the batch of an update for the log: "an update has 1024 rows, 512 a replica".
  [[nodiscard]] virtual std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const;
  /// Its threads beside the replicas, for a line about the run: "2 rollout workers"; empty when there are none.
  [[nodiscard]] virtual std::string describe_workers(const TrainOptions&) const { return ""; }
  /// How a run that has ended could be made faster; empty when there is nothing to say.
  [[nodiscard]] virtual std::string advice(const TrainOptions&, const pipeline::PipelineReport&) const { return ""; }

  /// Whether a run can go on when ranks have died (`survivors`).
  [[nodiscard]] virtual bool can_lose_ranks() const { return false; }
  /// Whether the speed of env groups decides what is learned.
  [[nodiscard]] virtual bool depends_on_timing(const TrainOptions&) const { return false; }

  /// Returns the options that `tandem tune` may vary, in the order of its table. Also asked with default options and no
  /// machine, for the words and their help.
  [[nodiscard]] virtual std::vector<Knob> knobs(const TrainOptions&, const Machine&) const { return {}; }
  /// Throws ConfigError when such a run cannot be tuned.
  virtual void require_tunable(const TrainOptions&) const {}

  /// The run, built. Collective over the plan's ranks. Throws ConfigError for devices and policies that cannot be.
  [[nodiscard]] virtual std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const = 0;
};

/// All algorithms, in the order in which they were added.
[[nodiscard]] const std::vector<std::unique_ptr<const Algorithm>>& algorithms();
/// One that exists; InvariantError otherwise.
[[nodiscard]] const Algorithm& algorithm_of(const TrainOptions& options);
/// Adds one. Throws ConfigError when its name is taken.
void add_algorithm(std::unique_ptr<const Algorithm> algorithm);

}  // namespace tandem::app
