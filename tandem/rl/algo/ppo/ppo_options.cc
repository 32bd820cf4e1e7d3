#include "tandem/rl/algo/ppo/ppo_options.h"

#include <cmath>

namespace tandem::rl {

// Divisibility is looked at only when the counts themselves are sound, since it divides by them.
std::vector<std::string> faults_of(const PpoOptions& options, int shards) {
  std::vector<std::string> faults;
  const auto require = [&faults](bool holds, const std::string& fault) {
    if (!holds) faults.push_back(fault);
  };
  const auto in_range = [&](const char* key, double value, double low, double high) {
    require(value >= low && value <= high, concat(key, " is ", value, "; it must lie within ", low, " .. ", high));
  };
  const auto positive = [&](const char* key, const auto& value) {
    const std::optional<double> number(value);
    if (number)
      require(*number > 0 && std::isfinite(*number), concat(key, " is ", *number, "; it must be a positive number"));
  };
  const auto not_negative = [&](const char* key, double value) {
    require(value >= 0 && std::isfinite(value), concat(key, " is ", value, "; it must not be negative"));
  };
  positive("num_envs", options.num_envs);
  positive("rollout_steps", options.rollout_steps);
  positive("epochs", options.epochs);
  positive("minibatches", options.minibatches);
  positive("minibatch_size", options.minibatch_size);
  if (options.sequences) {
    positive("sequences.length", options.sequences->length);
    not_negative("sequences.burn_in", options.sequences->burn_in);
  }
  require(shards >= 1, concat("shards is ", shards, "; it must be at least 1"));
  if (faults.empty()) {
    for (const CountFault& fault : count_faults(options, shards, 1))
      require(false, concat(fault.key, " = ", fault.value, ": ", fault.problem));
  }
  positive("learning_rate", options.learning_rate);
  positive("adam_eps", options.adam_eps);
  in_range("gamma", options.gamma, 0, 1);
  in_range("gae_lambda", options.gae_lambda, 0, 1);
  positive("clip_range", options.clip_range);
  positive("clip_range_value", options.clip_range_value);
  not_negative("entropy_coef", options.entropy_coef);
  not_negative("kl_coef", options.kl_coef);
  positive("kl_coef_target", options.kl_coef_target);
  require(!options.kl_coef_target || options.kl_coef != 0,
          "kl_coef_target has no effect without a kl_coef to begin with");
  not_negative("value_coef", options.value_coef);
  positive("max_grad_norm", options.max_grad_norm);
  positive("target_kl", options.target_kl);
  positive("stall_timeout", options.stall_timeout);
  return faults;
}

// Between half and twice the target nothing changes.
double adapted_kl_coef(double kl_coef, double target, double kl, double first) {
  constexpr double kSpan = 1000;
  if (kl > 2 * target) return std::min(1.5 * kl_coef, kSpan * first);
  return kl < 0.5 * target ? std::max(0.5 * kl_coef, first / kSpan) : kl_coef;
}

}  // namespace tandem::rl
