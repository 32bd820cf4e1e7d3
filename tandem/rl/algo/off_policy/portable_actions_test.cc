// What exported headers of SAC, TD3 and DQN are compared with has the bits of what acts in their training, with the
// portable instruction set.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tandem/model/testing/seeded.h"
#include "tandem/rl/algo/dqn/dqn_policy.h"
#include "tandem/rl/algo/dqn/return_passes.h"
#include "tandem/rl/algo/off_policy/network_actor.h"
#include "tandem/rl/algo/sac/sac_policy.h"
#include "tandem/rl/algo/td3/td3_policy.h"
#include "tandem/rl/policy/export/portable_policy.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kComparedRows = 70;

const Spec kArm{.id = "Test-v0", .observation = {{.shape = {3}}}, .action = Box{{-2, -1}, {1, 3}}};
const NetworkOptions kTwoLayers{.hidden = {24, 20}};

at::Tensor compared_rows() { return at::randn({kComparedRows, 3}, model::seeded(2)) * 2; }

PortablePolicy::Decision decide_row(PortablePolicy& portable, const at::Tensor& x, std::int64_t row) {
  const std::byte* const leaf = reinterpret_cast<const std::byte*>(x.const_data_ptr<float>() + row * 3);
  return portable.act({.leaves = {&leaf, 1}});
}

template <typename Policy>
void expect_bits_of_training(Policy& policy, ActorHead head) {
  const at::Tensor x = compared_rows();
  NetworkActor actor(policy, policy.actor(),
                     {.head = head,
                      .least_log_std = -20,
                      .most_log_std = 2,
                      .acting = {.acting = Acting::kMode, .instruction_set = InstructionSet::kPortable}},
                     kComparedRows, Philox(1));
  at::Tensor expected = at::empty({kComparedRows, 2}), unused = at::empty({kComparedRows});
  actor.act(
      {x}, {},
      {.box = expected.data_ptr<float>(), .log_prob = unused.data_ptr<float>(), .value = unused.data_ptr<float>()});
  to_bounds(std::get<Box>(kArm.action), expected.const_data_ptr<float>(), kComparedRows, expected.data_ptr<float>());
  PortablePolicy portable({.policy = policy});
  for (std::int64_t row = 0; row < kComparedRows; ++row)
    ASSERT_TRUE(at::tensor(decide_row(portable, x, row).values).equal(expected[row])) << "row " << row;
}

TEST(PortableActionsTest, ThoseOfSacAndTd3HaveTheBitsOfTraining) {
  SacPolicy sac(kArm, kTwoLayers, 2, 1.0, model::seeded(1));
  expect_bits_of_training(sac, ActorHead::kMeanAndLogStd);
  Td3Policy td3(kArm, kTwoLayers, 2, 0.1, model::seeded(1));
  expect_bits_of_training(td3, ActorHead::kAction);
}

TEST(PortableActionsTest, TheValuesOfDqnHaveTheBitsOfTraining) {
  Spec spec = kArm;
  spec.action = Discrete{5};
  const at::Tensor x = compared_rows();
  for (const auto streams : {DqnStreams::kOne, DqnStreams::kDueling}) {
    for (const auto returns : {DqnReturn::kMean, DqnReturn::kCategorical, DqnReturn::kQuantiles}) {
      DqnOptions options;
      options.streams = streams;
      options.returns = returns;
      DqnPolicy policy(spec, kTwoLayers, options, model::seeded(3));
      ReturnPasses passes(policy.network(), options,
                          {.max_rows = kComparedRows, .passes = Passes::kForward, .set = InstructionSet::kPortable});
      (void)passes.forward({x});
      const at::Tensor expected = at::from_blob(const_cast<float*>(passes.means()), {kComparedRows, 5});
      PortablePolicy portable({.policy = policy});
      for (std::int64_t row = 0; row < kComparedRows; ++row)
        ASSERT_TRUE(at::tensor(decide_row(portable, x, row).head).equal(expected[row])) << "row " << row;
    }
  }
}

}  // namespace
}  // namespace tandem::rl
