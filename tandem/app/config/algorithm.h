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
#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/train_options.h"

namespace at {
struct Generator;
}
namespace tandem::learner {
class Ranks;
}
namespace tandem::pipeline {
struct PipelineReport;
}
namespace tandem::rl {
class ActorCritic;
class EnvRegistry;
class RestartBudget;
struct Spec;
class TrainingRun;
}  // namespace tandem::rl

namespace tandem::app {

/// Throws ConfigError when the option `key` cannot be, with the others as they are: an environment of no such name, a
/// head that does not fit its actions.
struct OptionCheck {
  std::string key;
  std::function<void(const TrainOptions&)> run;
};

/// Options that are being checked, and the faults that were found.
/// Passed through the algorithm's and the program's rules in one sweep, before any OptionCheck runs.
class Rules {
 public:
  /// `table` is bound to `options`; both outlive the rules. `replicas`: how many the devices make.
  Rules(const TrainOptions& options, const OptionTable& table, int replicas)
      : options_(options), table_(table), replicas_(replicas) {}

  [[nodiscard]] const TrainOptions& options() const { return options_; }
  /// For where a value came from, and whether it has an effect.
  [[nodiscard]] const OptionTable& table() const { return table_; }
  [[nodiscard]] int replicas() const { return replicas_; }
  /// 1 while they are `auto`.
  [[nodiscard]] int shards() const { return static_cast<int>(options_.shards.value_or(1)); }
  /// The setting of `key` that is in force is at fault.
  void fault(std::string_view key, const std::string& problem) { faults_.push_back(table_.fault(key, problem)); }
  /// Adds each of `faults`. A key that is no option of all algorithms is one of `section`.
  template <typename Faults>
  void count_faults(std::string_view section, const Faults& faults) {
    for (const auto& found : faults) {
      const bool is_common = table_.find(found.key) != nullptr;
      fault(is_common ? found.key : std::string(section) + "." + found.key, found.problem);
    }
  }
  /// Whether one of these keys has a value that was not asked for, so that a rule about it would mislead.
  [[nodiscard]] bool any_faulty(std::initializer_list<std::string_view> keys) const {
    return std::ranges::any_of(keys, [this](std::string_view key) { return table_.at(key).is_faulty(); });
  }
  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  const TrainOptions& options_;
  const OptionTable& table_;
  const int replicas_;
  std::vector<std::string> faults_;
};

/// The rows that come to a learner at once.
struct BatchSize {
  std::int64_t env_steps = 0;   // at least, where `may_be_larger`
  std::int64_t per_update = 1;  // such batches from one line of metrics to the next
  bool may_be_larger = false;
};

/// The effect of another layout on learning. When several options differ, the later value prevails.
/// The order is from the strongest promise to none.
enum class Learning {
  kSameBits,          // every number is the same
  kSameButForTiming,  // the same computation; but such runs have other numbers each time in any layout
  kOther,             // other batches, other random streams: another run, which may learn faster or more slowly
};

/// One value of `devices`, and how many replicas it makes.
struct DeviceChoice {
  std::string text;
  std::int64_t replicas = 1;
};
/// The hardware that a layout may use.
/// Default: one core and no devices, with which only the words and their help are asked for.
struct Machine {
  std::int64_t cores = 1;
  std::vector<DeviceChoice> devices = {};  // as the run may have them; the given ones are among them
};

/// An option that decides how the work of a run is laid out.
struct Knob {
  std::string word;  // for --vary
  std::string help;  // behind the word in `tandem tune --help`
  std::string key;   // of the option
  /// As a flag or a CONFIG would give them.
  std::vector<std::string> texts = {};  // values to try besides the given one
  Learning learning = Learning::kOther;
  bool applies = true;  // false: the given run has nothing of the kind
};

/// Where a run is to train. All outlive the making of a run.
/// Holds references, so the plan is passed down and never kept.
/// `options` are the resolved ones of a Configuration; make_run() copies what a run keeps.
struct RunPlan {
  const TrainOptions& options;  // whose shards are resolved
  const rl::EnvRegistry& environments;
  const learner::Ranks& ranks;
  std::shared_ptr<rl::RestartBudget> restarts;  // of environments, where they are made anew; else null
};

/// The environments that options are checked against, and the number of ranks. `environments` outlives the checks; the
/// options' plugins are not loaded into it.
/// Copied into the checks, which run later, after all options are resolved.
struct CheckPlace {
  const rl::EnvRegistry& environments;
  int ranks = 1;
};

/// A count that goes with the counts of other options.
struct FittingCount {
  std::string key;
  std::int64_t count = 0;
};

/// One object serves all runs of the process, so its functions are const and may be called from any thread. Functions
/// without a default must be written by each algorithm; the others describe one that has no threads of its own, cannot
/// lose ranks and cannot be tuned.
class Algorithm {
 public:
  virtual ~Algorithm() = default;

  /// The word for `algo`.
  /// Unique, recorded in config.yaml, and a folder's name in configs/presets: renaming it loses older runs.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Adds its options, which lie in options.of<Type>(), under keys with a section of their own.
  /// Called for every table that is made, also for help and for reading a recorded run; so it must not depend on values
  /// in `options`.
  virtual void add_options(OptionTable& table, TrainOptions& options) const = 0;
  /// Adds the faults of its options that do not go together, or not with those of the program.
  /// Values that failed to parse still hold the weaker layer's value; ask Rules::any_faulty() before a rule speaks
  /// about them.
  virtual void check(Rules&) const {}
  /// Returns counts that go with the others of `options`: each as near as can be to the one that is set. They take the
  /// place of counts that stand in shipped settings, never of those that a user asked for. Counts are at least 1, but
  /// may not go together.
  [[nodiscard]] virtual std::vector<FittingCount> fitting_counts(const TrainOptions&) const { return {}; }
  /// Returns its checks that need the environment or the ranks; see Surroundings::checks.
  [[nodiscard]] virtual std::vector<OptionCheck> checks(const CheckPlace&) const { return {}; }

  /// The options are resolved and free of faults.
  [[nodiscard]] virtual BatchSize batch_size(const TrainOptions& options) const = 0;
  /// Describes the batch of an update for the log: "an update has 1024 rows, 512 a replica".
  [[nodiscard]] virtual std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const;
  /// Its threads beside the replicas, for a line about the run: "2 rollout workers"; empty when there are none.
  [[nodiscard]] virtual std::string describe_workers(const TrainOptions&) const { return ""; }
  /// How a run that has ended could be made faster; empty when there is nothing to say.
  [[nodiscard]] virtual std::string advice(const TrainOptions&, const pipeline::PipelineReport&) const { return ""; }

  /// The env groups that a run makes of each shard, on all threads together.
  [[nodiscard]] virtual int env_groups_of_shard(const TrainOptions&) const { return 1; }

  /// Whether a run can go on when ranks have died (`survivors`).
  /// Where it is false, `survivors` other than `end` is refused.
  [[nodiscard]] virtual bool can_lose_ranks() const { return false; }
  /// Whether the speed of env groups decides what is learned.
  /// Two such runs with the same options may end in different numbers, so they cannot be compared bit by bit.
  [[nodiscard]] virtual bool depends_on_timing(const TrainOptions&) const { return false; }

  /// Returns the options that `tandem tune` may vary, in the order of its table. Also asked with default options and no
  /// machine, for the words and their help.
  /// Each word names one knob, also where several algorithms have it: the help shows the first one's text.
  [[nodiscard]] virtual std::vector<Knob> knobs(const TrainOptions&, const Machine&) const { return {}; }
  /// Throws ConfigError when such a run cannot be tuned.
  /// Called once, on the resolved options, before the first run is measured.
  virtual void require_tunable(const TrainOptions&) const {}

  /// Makes the policies that it trains, for training, evaluation and export: an rl::PolicyFactory for the settings of
  /// one of them. Nothing: they are actor-critics as the settings describe them.
  [[nodiscard]] virtual std::function<std::shared_ptr<rl::ActorCritic>(const rl::Spec&, at::Generator)> policy_factory(
      const TrainOptions&, const PolicySettings&) const {
    return {};
  }
  /// The run, built. Collective over the plan's ranks. Throws ConfigError for devices and policies that cannot be.
  [[nodiscard]] virtual std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const = 0;
};

/// All algorithms, in the order in which they were added.
/// The reference stays good for the life of the process; the list grows only while algorithms are registered.
[[nodiscard]] const std::vector<std::unique_ptr<const Algorithm>>& algorithms();
/// One that exists; InvariantError otherwise.
[[nodiscard]] const Algorithm& algorithm_of(const TrainOptions& options);
/// Adds one. Throws ConfigError when its name is taken.
/// Program code calls register_algorithm(), which puts Tandem's own first.
void add_algorithm(std::unique_ptr<const Algorithm> algorithm);

}  // namespace tandem::app
