#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

// Mean and latent features have a row for each; log_std has as many rows as there are features, here as rows.
PolicyOutput state_dependent_noise() {
  return {.action_parameters = {torch::rand({4, 2}), torch::rand({4, 4}), torch::rand({4, 2})},
          .value = torch::rand({4})};
}

TEST(OutputRowsTest, ALogStdOfFeaturesIsNotTakenForRows) {
  const PolicyOutput output = state_dependent_noise();
  const PolicyOutput some = map_rows(output, 4, [](const at::Tensor& tensor) { return tensor.narrow(0, 1, 2); });
  EXPECT_TRUE(torch::equal(some.action_parameters[0], output.action_parameters[0].narrow(0, 1, 2)));
  EXPECT_TRUE(torch::equal(some.action_parameters[1], output.action_parameters[1].narrow(0, 1, 2)));
  EXPECT_TRUE(torch::equal(some.action_parameters[2], output.action_parameters[2]));
  const PolicyOutput both = cat_rows({output, output}, {4, 4});
  EXPECT_EQ(both.action_parameters[1].size(0), 8);
  EXPECT_TRUE(torch::equal(both.action_parameters[2], output.action_parameters[2]));
}

TEST(OutputRowsTest, ALogStdWithARowForEachGoesWithTheRows) {
  const PolicyOutput output{.action_parameters = {torch::rand({4, 2}), torch::rand({4, 2})}, .value = torch::rand({4})};
  const PolicyOutput some = map_rows(output, 4, [](const at::Tensor& tensor) { return tensor.narrow(0, 1, 2); });
  EXPECT_TRUE(torch::equal(some.action_parameters[1], output.action_parameters[1].narrow(0, 1, 2)));
}

}  // namespace
}  // namespace tandem::rl
