// Runs of SAC and DQN in an environment that forbids a choice in each step.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tandem/rl/algo/testing/small_off_policy.h"

namespace tandem::rl {
namespace {

using rl::testing::small_discrete_sac;
using rl::testing::small_dqn;

// Shows which of its three choices it forbids now, and throws when that one is taken.
struct Forbidding {
  static Spec spec() {
    return {.id = "Forbidding-v0",
            .observation = {{.shape = {1}}},
            .action = Discrete{3},
            .max_episode_steps = 9,
            .has_action_mask = true};
  }
  std::array<float, 1> reset(NumpyGenerator& random) {
    random_ = &random;
    return next();
  }
  StepResult<std::array<float, 1>> step(std::int64_t action) {
    if (action == forbidden_) throw std::runtime_error("a choice was taken that is forbidden");
    return {.observation = next(), .reward = 1};
  }
  void action_mask(std::span<std::uint8_t> allowed) const {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] = static_cast<std::int64_t>(i) == forbidden_ ? 0 : 1;
  }

 private:
  std::array<float, 1> next() {
    forbidden_ = random_->integers(0, 3);
    return {static_cast<float>(forbidden_)};
  }
  NumpyGenerator* random_ = nullptr;
  std::int64_t forbidden_ = 0;
};

TEST(MaskedChoicesTest, NoForbiddenChoiceIsTakenAndRowsHaveTheMasksOfBothObservations) {
  for (auto setup : {small_discrete_sac({}), small_dqn({})}) {
    setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Forbidding>>(count); };
    OffPolicyRun run(setup);
    for (int i = 0; i < 6; ++i) EXPECT_TRUE(std::isfinite(run.update().learning.value_loss));
    TransitionRows rows = make_transitions(run.spec(), 200, 0);
    run.workers().front()->draw(1, Normalizers(run.spec(), {}), rows);
    const auto forbidden = [](const at::Tensor& mask) { return (mask == 0).to(at::kFloat).argmax(1).to(at::kFloat); };
    EXPECT_TRUE(rows.action_mask.sum(1).eq(2).all().item<bool>());
    EXPECT_TRUE(forbidden(rows.action_mask).equal(rows.observation[0].squeeze(1)));
    EXPECT_FALSE(rows.action.to(at::kFloat).eq(forbidden(rows.action_mask)).any().item<bool>());
    // A last observation of an episode that was cut short allows all.
    const at::Tensor is_within = rows.next_action_mask.sum(1) == 2;
    EXPECT_GT(is_within.sum().item<int>(), 100);
    EXPECT_TRUE(forbidden(rows.next_action_mask.index({is_within}))
                    .equal(rows.next_observation[0].squeeze(1).index({is_within})));
  }
}

}  // namespace
}  // namespace tandem::rl
