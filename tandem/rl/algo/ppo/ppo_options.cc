#include "tandem/rl/algo/ppo/ppo_options.h"

#include "tandem/rl/algo/option_faults.h"

namespace tandem::rl {

// Divisibility is looked at only when the counts themselves are sound, since it divides by them.
std::vector<std::string> faults_of(const PpoOptions& options, int shards) {
  OptionFaults faults;
  faults.positive("num_envs", options.num_envs);
  faults.positive("rollout_steps", options.rollout_steps);
  faults.positive("epochs", options.epochs);
  faults.positive("minibatches", options.minibatches);
  faults.positive("minibatch_size", options.minibatch_size);
  if (options.sequences) {
    faults.positive("sequences.length", options.sequences->length);
    faults.not_negative("sequences.burn_in", options.sequences->burn_in);
  }
  faults.require(shards >= 1, concat("shards is ", shards, "; it must be at least 1"));
  if (!faults.any()) {
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
  faults.positive("stall_timeout", options.stall_timeout);
  return faults.take();
}

// Between half and twice the target nothing changes.
double adapted_kl_coef(double kl_coef, double target, double kl, double first) {
  constexpr double kSpan = 1000;
  if (kl > 2 * target) return std::min(1.5 * kl_coef, kSpan * first);
  return kl < 0.5 * target ? std::max(0.5 * kl_coef, first / kSpan) : kl_coef;
}

}  // namespace tandem::rl
