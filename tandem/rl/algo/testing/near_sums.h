// rl/algo/testing/near_sums.h: the sums of a PPO loss, against those of its definition.
#pragma once
#include <gtest/gtest.h>

#include "tandem/rl/algo/ppo/ppo_loss.h"

namespace tandem::rl::testing {

/// Within what the definition's means lose, which pass through float32 in places.
inline void expect_near(const PpoSums& got, const PpoSums& wanted) {
  const double loose = 1e-4 * wanted.rows;
  EXPECT_EQ(got.rows, wanted.rows);
  EXPECT_NEAR(got.policy_loss, wanted.policy_loss, loose);
  EXPECT_NEAR(got.value_loss, wanted.value_loss, loose);
  EXPECT_NEAR(got.entropy, wanted.entropy, loose);
  EXPECT_NEAR(got.approx_kl, wanted.approx_kl, loose);
  EXPECT_NEAR(got.clip_fraction, wanted.clip_fraction, 1e-4 * wanted.rows + 0.1);
}

}  // namespace tandem::rl::testing
