#include "tandem/rl/rollout/agent_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tandem::rl {
namespace {

// The network values all rows when one episode is cut short, and refuses integers beyond their bounds.
TEST(AgentRowsTest, RowsThatNoEndWasWrittenToAreObservations) {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "level", .type = ElementType::kInt64, .shape = {2}, .low = {1, -3}, .high = {4, -1}},
                      {.name = "place", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  spec.action = Discrete{2};
  const AgentRows rows(spec, 2, 3, /*normalized=*/false, /*state_size=*/0, nullptr);
  const at::Tensor levels = rows.final_observation[0].view({6, 2});
  for (std::int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(levels[row][0].item<std::int64_t>(), 1);
    EXPECT_EQ(levels[row][1].item<std::int64_t>(), -3);
  }
}

}  // namespace
}  // namespace tandem::rl
