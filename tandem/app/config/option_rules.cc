#include "tandem/app/config/option_rules.h"

#include <algorithm>
#include <initializer_list>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// What to write instead of a count that does not fit: `unit` times the divisors of `total`, of at least `least`, next
// to `wanted`. Empty when there is none.
std::string nearest_divisors(std::int64_t total, std::int64_t wanted, std::int64_t unit = 1, std::int64_t least = 1) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d <= total / d; ++d) {
    if (total % d != 0) continue;
    for (const std::int64_t divisor : {d, total / d}) {
      if (divisor < least) continue;
      if (divisor <= wanted && divisor > below) below = divisor;
      if (divisor > wanted && (above == 0 || divisor < above)) above = divisor;
    }
  }
  if (below == 0) return above == 0 ? "" : concat(above * unit);
  return above == 0 ? concat(below * unit) : concat(below * unit, " or ", above * unit);
}

std::string nearest_multiples(std::int64_t unit, std::int64_t wanted) {
  const std::int64_t below = wanted / unit * unit;
  return below == 0 ? concat(unit) : concat(below, " or ", below + unit);
}

class Rules {
 public:
  Rules(const TrainOptions& options, const OptionTable& table, int replicas)
      : options_(options), table_(table), replicas_(replicas) {}

  std::vector<std::string> faults() {
    check_env();
    check_counts();
    check_effects();
    return std::move(faults_);
  }

 private:
  void fault(std::string_view key, const std::string& problem) { faults_.push_back(table_.fault(key, problem)); }

  void check_env() {
    if (!options_.env.empty() || table_.at("env").is_faulty()) return;
    fault("env", "name an environment, e.g. --env CartPole-v1; `tandem envs` lists them");
  }

  // Every shard gets whole environments, and every minibatch the same rows of every shard, so nothing is left over.
  void check_counts() {
    const rl::PpoOptions& ppo = options_.ppo;
    if (any_faulty({"num_envs", "rollout_steps", "shards", "devices", "ppo.minibatches", "ppo.minibatch_size"})) return;
    if (ppo.minibatches.has_value() == ppo.minibatch_size.has_value()) {
      return fault("ppo.minibatches", "give exactly one of ppo.minibatches and ppo.minibatch_size");
    }
    const std::int64_t shards = options_.shards.value_or(1);
    if (ppo.num_envs % shards != 0) {
      const std::string fewer = nearest_divisors(ppo.num_envs, shards, 1, replicas_);
      return fault("num_envs",
                   concat("does not divide into ", shards, " shards; ", nearest_multiples(shards, ppo.num_envs),
                          " would", fewer.empty() ? "" : ", or shards: ", fewer));
    }
    check_minibatches(shards, ppo.batch_rows() / shards);
  }

  void check_minibatches(std::int64_t shards, std::int64_t rows_of_shard) {
    const rl::PpoOptions& ppo = options_.ppo;
    const std::string rollout =
        concat("does not divide the ", ppo.batch_rows(), " rows of a rollout (", ppo.num_envs, " environments x ",
               ppo.rollout_steps, " steps, ", shards, shards == 1 ? " shard); " : " shards); ");
    if (ppo.minibatches && rows_of_shard % *ppo.minibatches != 0) {
      fault("ppo.minibatches", concat(rollout, nearest_divisors(rows_of_shard, *ppo.minibatches), " would"));
    }
    if (!ppo.minibatch_size) return;
    const std::int64_t size = *ppo.minibatch_size;
    if (size % shards != 0 || rows_of_shard % (size / shards) != 0) {
      fault("ppo.minibatch_size", concat(rollout, nearest_divisors(rows_of_shard, size / shards, shards), " would"));
    }
  }

  // An option that was asked for and would do nothing is a fault: someone expects something of it.
  void check_effects() {
    for (const auto& option : table_.options()) {
      if (option->origin().layer < Layer::kFile || table_.has_effect(*option)) continue;
      const Option::Needed& needed = option->needed();
      if (table_.at(needed.key).is_faulty()) continue;
      fault(option->key(), concat("has no effect without ", needed.key, ": ", needed.text));
    }
  }

  [[nodiscard]] bool any_faulty(std::initializer_list<std::string_view> keys) const {
    return std::any_of(keys.begin(), keys.end(), [this](std::string_view key) { return table_.at(key).is_faulty(); });
  }

  const TrainOptions& options_;
  const OptionTable& table_;
  const int replicas_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas) {
  return Rules(options, table, replicas).faults();
}

}  // namespace tandem::app
