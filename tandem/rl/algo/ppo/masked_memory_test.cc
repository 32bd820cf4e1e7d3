// Action masks, observations of several leaves and policies that remember, all at once.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <tuple>

#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

// Shows first behind which door the prize is, and asks three steps later. In each step some doors are shut; trying one
// is an error. When it is asked the prize's is open. Without memory 15/32 is the best that can be had: one of the open
// doors by chance.
class Doors {
 public:
  static constexpr std::int64_t kDoors = 4, kSteps = 4;
  using Shown = std::tuple<std::int64_t, std::array<float, 1>>;  // the door or kDoors for none; time

  static Spec spec() {
    return {.id = "Doors-v0",
            .observation = {{.name = "door", .type = ElementType::kInt64, .low = {0}, .high = {kDoors}},
                            {.name = "time", .shape = {1}}},
            .action = Discrete{kDoors},
            .has_action_mask = true};
  }
  Shown reset(NumpyGenerator& random) {
    random_ = &random;
    prize_ = random.integers(0, kDoors);
    step_ = 0;
    shut_some();
    return {prize_, {0.0F}};
  }
  StepResult<Shown> step(std::int64_t door) {
    if (open_[static_cast<std::size_t>(door)] == 0) throw std::logic_error("a door that is shut");
    ++step_;
    const bool asked = step_ == kSteps;
    StepResult<Shown> result{.observation = {kDoors, {static_cast<float>(step_)}}, .terminated = asked};
    if (asked) result.reward = door == prize_ ? 1 : 0;
    shut_some();
    return result;
  }
  void action_mask(std::span<std::uint8_t> allowed) const { std::ranges::copy(open_, allowed.begin()); }

 private:
  void shut_some() {
    for (std::uint8_t& door : open_) door = random_->integers(0, 2) == 1 ? 1 : 0;
    open_[static_cast<std::size_t>(step_ == kSteps - 1 ? prize_ : random_->integers(0, kDoors))] = 1;
  }

  NumpyGenerator* random_ = nullptr;
  std::int64_t prize_ = 0, step_ = 0;
  std::array<std::uint8_t, kDoors> open_{};
};

// Under AddressSanitizer, which makes them take minutes, fewer steps look for masked actions, and none has to learn.
#ifdef TANDEM_ADDRESS_SANITIZER
constexpr std::int64_t kTotal = 50'000;
constexpr double kLearned = -1, kAllBut = 2;
#else
constexpr std::int64_t kTotal = 1'000'000;
constexpr double kLearned = 0.95, kAllBut = 0.65;
#endif

template <typename Setup>
Setup on_doors(PolicyFactory policy) {
  Setup setup;
  setup.seed = 5;
  setup.total_steps = kTotal;
  setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Doors>>(count); };
  setup.make_policy = std::move(policy);
  return setup;
}

PpoSetup ppo_on_doors(PolicyFactory policy) {
  auto setup = on_doors<PpoSetup>(std::move(policy));
  setup.ppo.num_envs = 256;
  setup.ppo.rollout_steps = 16;
  setup.ppo.epochs = 1;
  setup.ppo.minibatches = 4;
  setup.ppo.learning_rate = 0.003;
  return setup;
}

// Plays the whole run, in which a door that is shut would end it, and returns the last mean return.
template <typename Run>
double return_at_the_end(Run run) {
  double last = 0;
  while (run.env_steps() < kTotal || !run.all_reported()) last = run.update().episode_return_mean;
  EXPECT_GE(run.env_steps(), kTotal);
  return last;
}

const MlpPolicyOptions kNet{.hidden = {32}, .trunks = Trunks::kShared};

TEST(MaskedMemoryTest, InAMillionStepsNoActionIsMaskedAndMemoryIsNeeded) {
  const double memoryless = return_at_the_end(PpoRun(ppo_on_doors(mlp_policy_factory(kNet))));
  EXPECT_GT(memoryless, kLearned - 0.65);
  EXPECT_LT(memoryless, kAllBut);
}

TEST(MaskedMemoryTest, InAMillionStepsNoActionOfAnLstmIsMaskedAndItLearns) {
  PpoSetup setup = ppo_on_doors(recurrent_policy_factory({.mlp = kNet, .size = 16}));
  setup.ppo.sequences = SequenceOptions{.length = 16};
  EXPECT_GT(return_at_the_end(PpoRun(std::move(setup))), kLearned);
}

TEST(MaskedMemoryTest, InAMillionStepsOfAppoNoActionOfAGruIsMaskedAndItLearns) {
  auto setup = on_doors<ImpalaSetup>(recurrent_policy_factory({.mlp = kNet, .cell = CellKind::kGru, .size = 16}));
  setup.appo = AppoOptions{};
  setup.impala.num_envs = 256;
  setup.impala.workers = 2;
  setup.impala.rollout_steps = 16;
  setup.impala.learning_rate = 0.003;
  setup.impala.sequence_length = 16;
  setup.impala.batches_per_update = 20;
  EXPECT_GT(return_at_the_end(ImpalaRun(std::move(setup))), kLearned);
}

}  // namespace
}  // namespace tandem::rl
