#include "tandem/rl/algo/ppo/ppo_options.h"

#include <algorithm>
#include <cmath>

namespace tandem::rl {
namespace {

class Faults {
 public:
  void require(bool holds, const std::string& fault) {
    if (!holds) faults_.push_back(fault);
  }
  void in_range(const char* key, double value, double low, double high) {
    require(value >= low && value <= high, concat(key, " is ", value, "; it must lie within ", low, " .. ", high));
  }
  void positive(const char* key, const std::optional<double>& value) {
    if (value)
      require(*value > 0 && std::isfinite(*value), concat(key, " is ", *value, "; it must be a positive number"));
  }
  void not_negative(const char* key, double value) {
    require(value >= 0 && std::isfinite(value), concat(key, " is ", value, "; it must not be negative"));
  }
  [[nodiscard]] bool none() const { return faults_.empty(); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(faults_); }

 private:
  std::vector<std::string> faults_;
};

void check_counts(const PpoOptions& options, Faults& faults) {
  faults.positive("num_envs", options.num_envs);
  faults.positive("rollout_steps", options.rollout_steps);
  faults.positive("epochs", options.epochs);
  if (options.minibatches) faults.positive("minibatches", static_cast<double>(*options.minibatches));
  if (options.minibatch_size) faults.positive("minibatch_size", static_cast<double>(*options.minibatch_size));
  if (!options.sequences) return;
  faults.positive("sequences.length", options.sequences->length);
  faults.not_negative("sequences.burn_in", options.sequences->burn_in);
}

}  // namespace

// Divisibility is looked at only when the counts themselves are sound, since it divides by them.
std::vector<std::string> faults_of(const PpoOptions& options, int shards) {
  Faults faults;
  check_counts(options, faults);
  faults.require(shards >= 1, concat("shards is ", shards, "; it must be at least 1"));
  if (faults.none()) {
    for (const CountFault& fault : count_faults(options, shards, 1))
      faults.require(false, concat(fault.key, " = ", fault.value, ": ", fault.problem));
  }
  faults.positive("learning_rate", options.learning_rate);
  faults.positive("adam_eps", options.adam_eps);
  faults.in_range("gamma", options.gamma, 0, 1);
  faults.in_range("gae_lambda", options.gae_lambda, 0, 1);
  faults.positive("clip_range", options.clip_range);
  faults.positive("clip_range_value", options.clip_range_value);
  faults.not_negative("entropy_coef", options.entropy_coef);
  faults.not_negative("kl_coef", options.kl_coef);
  faults.positive("kl_coef_target", options.kl_coef_target);
  faults.require(!options.kl_coef_target || options.kl_coef != 0,
                 "kl_coef_target has no effect without a kl_coef to begin with");
  faults.not_negative("value_coef", options.value_coef);
  faults.positive("max_grad_norm", options.max_grad_norm);
  faults.positive("target_kl", options.target_kl);
  faults.positive("stall_timeout", static_cast<double>(options.stall_timeout));
  return faults.take();
}

// Between half and twice the target nothing changes.
double adapted_kl_coef(double kl_coef, double target, double kl, double first) {
  constexpr double kSpan = 1000;
  if (kl > 2 * target) return std::min(1.5 * kl_coef, kSpan * first);
  return kl < 0.5 * target ? std::max(0.5 * kl_coef, first / kSpan) : kl_coef;
}

}  // namespace tandem::rl
