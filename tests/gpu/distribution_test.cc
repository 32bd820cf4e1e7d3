// Distributions whose parameters lie on a CUDA device: they draw the numbers that they draw on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tandem/device/device_set.h"
#include "tandem/model/distribution/categorical.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::model {
namespace {

TEST(CudaDistributionTest, DrawsTheNumbersOfTheCpu) {
  const c10::Device cuda = device::parse_device_set("cuda:0").front();
  const at::Tensor mean = at::linspace(-1, 1, 12).reshape({4, 3}), log_std = at::full({3}, -0.5);
  const at::Tensor mean_there = mean.to(cuda), log_std_there = log_std.to(cuda);
  EXPECT_TRUE(
      at::allclose(Normal(mean_there, log_std_there).sample(seeded(3)).cpu(), Normal(mean, log_std).sample(seeded(3))));
  EXPECT_TRUE(at::allclose(SquashedNormal(mean_there, log_std_there).entropy_estimate(seeded(4)).cpu(),
                           SquashedNormal(mean, log_std).entropy_estimate(seeded(4)), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(Categorical(mean_there).sample(seeded(5)).cpu(), Categorical(mean).sample(seeded(5))));
}

}  // namespace
}  // namespace tandem::model
