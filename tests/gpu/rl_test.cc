// Reinforcement learning of a policy that lies on a CUDA device.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda_runs.h"
#include "tandem/rl/algo/ppo/ppo_run.h"

namespace tandem::rl {
namespace {

TEST(CudaRlTest, PpoLearnsCartPole) {
  PpoRun run(cuda_cartpole(LossKernel::kAuto));
  double best = 0;
  while (run.env_steps() < 100'000) best = std::max(best, run.update().episode_return_mean);  // also past a first NaN
  EXPECT_GT(best, 200) << "without learning a pole stays up for some 22 steps";
}

TEST(CudaRlTest, TheSameRunTwiceHasTheSameBits) {
  PpoRun one(cuda_cartpole(LossKernel::kAuto)), other(cuda_cartpole(LossKernel::kAuto));
  for (int update = 0; update < 4; ++update) {
    (void)one.update();
    (void)other.update();
  }
  EXPECT_EQ(one.state_sha256(), other.state_sha256());
}

}  // namespace
}  // namespace tandem::rl
