// rl/algo/ppo_sums.h: what PPO's losses add up over rows.
#pragma once

namespace tandem::rl {

/// Sums over rows of one shard, or more; means are sums over everything, divided by rows.
struct PpoSums {
  double rows = 0, policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clipped = 0;

  void add(const PpoSums& other) {
    rows += other.rows;
    policy_loss += other.policy_loss;
    value_loss += other.value_loss;
    entropy += other.entropy;
    approx_kl += other.approx_kl;
    clipped += other.clipped;
  }
};

}  // namespace tandem::rl
