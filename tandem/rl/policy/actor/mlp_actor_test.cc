#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actors.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kRows = 6;
const Box kBox{{-1, -1}, {1, 1}};

MlpPolicy make_policy(ActionSpace space, std::optional<ActionFamily> family = {}) {
  const Spec spec{.id = "Test-v0", .observation = {{.shape = {3}}}, .action = std::move(space)};
  return {spec, {.hidden = {16}, .family = family, .log_std_init = -0.5, .policy_gain = 1}, model::seeded(1)};
}

struct Step {
  at::Tensor action, log_prob, value;
};

Step act(Actor& actor, const ActionSpace& space, const Observation& observation, const at::Tensor& mask = {}) {
  const std::int64_t elements = action_elements(space);
  const bool is_box = std::holds_alternative<Box>(space);
  Step step{at::empty({kRows, elements}, is_box ? at::kFloat : at::kLong), at::empty({kRows}), at::empty({kRows})};
  actor.act(observation, mask,
            {.discrete = is_box ? nullptr : step.action.data_ptr<std::int64_t>(),
             .box = is_box ? step.action.data_ptr<float>() : nullptr,
             .log_prob = step.log_prob.data_ptr<float>(),
             .value = step.value.data_ptr<float>()});
  if (std::holds_alternative<Discrete>(space)) step.action = step.action.squeeze(1);
  return step;
}

struct Case {
  ActionSpace space;
  std::optional<ActionFamily> family = {};
};
std::vector<Case> cases() {
  return {{Discrete{4}},
          {MultiDiscrete{{3, 2}}},
          {kBox},
          {kBox, ActionFamily::kSquashedNormal},
          {kBox, ActionFamily::kStateDependentNoise}};
}

TEST(MlpActorTest, RecordsTheLogProbAndValueThatTheLearnerComputes) {
  for (const Case& each : cases()) {
    MlpPolicy policy = make_policy(each.space, each.family);
    MlpActor actor(policy, {}, kRows, 5);
    const at::Tensor x = at::randn({kRows, 3}, model::seeded(2));
    const Step step = act(actor, each.space, {x});
    const PolicyOutput output = policy.forward({x});
    EXPECT_TRUE(at::allclose(step.log_prob, policy.distribution(output)->log_prob(step.action), 1e-4, 1e-5))
        << name_of(policy.family());
    EXPECT_TRUE(at::allclose(step.value, output.value, 1e-5, 1e-5));
  }
}

TEST(MlpActorTest, TheModeIsThatOfTheDistribution) {
  for (const Case& each : cases()) {
    MlpPolicy policy = make_policy(each.space, each.family);
    MlpActor actor(policy, {.acting = Acting::kMode}, kRows, 5);
    const at::Tensor x = at::randn({kRows, 3}, model::seeded(3));
    const at::Tensor expected = policy.distribution(policy.forward({x}))->mode();
    EXPECT_TRUE(at::allclose(act(actor, each.space, {x}).action, expected, 1e-5, 1e-5)) << name_of(policy.family());
  }
}

TEST(MlpActorTest, ASavedActorGoesOnWithTheSameActions) {
  for (const Case& each : cases()) {
    MlpPolicy policy = make_policy(each.space, each.family);
    const ActorOptions options{.noise_hold_steps = 3};
    MlpActor actor(policy, options, kRows, 5), other(policy, options, kRows, 99);
    const at::Tensor x = at::randn({kRows, 3}, model::seeded(4));
    for (int i = 0; i < 4; ++i) (void)act(actor, each.space, {x});
    other.load(actor.save());
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(act(actor, each.space, {x}).action.equal(act(other, each.space, {x}).action)) << i;
    }
    EXPECT_THROW(other.load(std::vector<std::byte>(7)), CheckpointError);
  }
}

TEST(MlpActorTest, NoiseIsHeldOverStepsAndDrawnAnewWhereAnEpisodeEnds) {
  const ActionSpace space = kBox;
  MlpPolicy policy = make_policy(space, ActionFamily::kStateDependentNoise);
  MlpActor actor(policy, {.noise_hold_steps = 0}, kRows, 5);
  const at::Tensor x = at::randn({kRows, 3}, model::seeded(5));
  const at::Tensor first = act(actor, space, {x}).action, second = act(actor, space, {x}).action;
  EXPECT_TRUE(first.equal(second));
  const std::vector<std::uint8_t> done{0, 1, 0, 0, 0, 1};
  actor.episodes_ended(done);
  const at::Tensor third = act(actor, space, {x}).action;
  for (std::int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(third[row].equal(first[row]), done[static_cast<std::size_t>(row)] == 0) << row;
  }
  actor.refresh();
  EXPECT_FALSE(act(actor, space, {x}).action[0].equal(first[0]));
}

// Draws of each row follow an Ornstein-Uhlenbeck process with deviation 1, by the kernels and by the module; an episode
// begins with a draw of its own, and a saved actor goes on with the draw that it had.
TEST(MlpActorTest, CorrelatedNoiseStaysFromStepToStepWithinAnEpisode) {
  const ActionSpace space = kBox;
  MlpPolicy policy = make_policy(space, ActionFamily::kNormal);
  const ActorOptions options{.noise_correlation = 0.9F};
  const at::Tensor x = at::randn({kRows, 3}, model::seeded(2));
  const auto parameters = policy.forward({x}).action_parameters;
  const at::Tensor mean = parameters[0].detach(), deviation = parameters[1].detach().exp();
  MlpActor fast(policy, options, kRows, 5), again(policy, options, kRows, 6);
  ModuleActor module(policy, options, kRows, 5);
  for (Actor* actor : {static_cast<Actor*>(&fast), static_cast<Actor*>(&module)}) {
    std::vector<at::Tensor> draws;
    for (int i = 0; i < 4000; ++i) {
      draws.push_back((act(*actor, space, {x}).action - mean) / deviation);
      if (i % 100 == 0) actor->refresh();
    }
    const at::Tensor all = at::stack(draws), before = all.narrow(0, 0, 3999), after = all.narrow(0, 1, 3999);
    EXPECT_NEAR(all.square().mean().item<double>(), 1, 0.1);
    EXPECT_NEAR((before * after).mean().item<double>(), 0.9, 0.1);
    EXPECT_NEAR((after - 0.9 * before).square().mean().item<double>(), 1 - 0.81, 0.01);
  }
  const std::vector<std::uint8_t> done{1, 0, 0, 0, 0, 0};
  const auto draw = [&](Actor& actor) { return (act(actor, space, {x}).action - mean) / deviation; };
  const at::Tensor last = draw(fast);
  again.load(fast.save());
  fast.episodes_ended(done);
  const at::Tensor next = draw(fast), unended = draw(again);
  EXPECT_TRUE(next.narrow(0, 1, kRows - 1).equal(unended.narrow(0, 1, kRows - 1)));
  // The first row's new draw alone makes up the other's fresh part.
  EXPECT_TRUE(at::allclose(unended[0], 0.9 * last[0] + std::sqrt(0.19) * next[0], 1e-4, 1e-4));
}

TEST(MlpActorTest, MasksAreObeyed) {
  const ActionSpace space = Discrete{4};
  MlpPolicy policy = make_policy(space);
  MlpActor actor(policy, {}, kRows, 5);
  at::Tensor mask = at::zeros({kRows, 4}, at::kByte);
  for (std::int64_t row = 0; row < kRows; ++row) mask[row][row % 4] = 1;
  const Step step = act(actor, space, {at::randn({kRows, 3})}, mask);
  EXPECT_TRUE(step.action.equal(at::arange(kRows, at::kLong) % 4));
  EXPECT_LT(step.log_prob.abs().max().item<float>(), 1e-6);
}

TEST(MlpActorTest, EvaluatesMoreAndFewerRowsThanItActsOn) {
  MlpPolicy policy = make_policy(Discrete{4});
  MlpActor actor(policy, {}, kRows, 5);
  for (const std::int64_t rows : {1, 6, 17}) {
    const at::Tensor x = at::randn({rows, 3}), value = at::empty({rows});
    actor.evaluate({x}, {}, value.data_ptr<float>());
    EXPECT_TRUE(at::allclose(value, policy.forward({x}).value, 1e-5, 1e-5)) << rows;
  }
}

TEST(MlpActorTest, LeavesOfOtherTypesAreEncoded) {
  const Spec spec{.id = "Cards-v0",
                  .observation = {{.name = "card", .type = ElementType::kInt64, .low = {0}, .high = {4}},
                                  {.name = "pixels", .type = ElementType::kUInt8, .shape = {2}}},
                  .action = Discrete{3}};
  MlpPolicy policy(spec, {.hidden = {8}}, model::seeded(6));
  MlpActor actor(policy, {}, kRows, 5);
  const Observation rows{at::arange(kRows, at::kLong) % 5, at::arange(2 * kRows, at::kByte).reshape({kRows, 2})};
  EXPECT_TRUE(at::allclose(act(actor, spec.action, rows).value, policy.forward(rows).value, 1e-5, 1e-5));
}

TEST(MlpActorTest, RefreshFollowsTheParameters) {
  const ActionSpace space = kBox;
  MlpPolicy policy = make_policy(space);
  MlpActor actor(policy, {}, kRows, 5);
  {
    at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : policy.parameters()) parameter.add_(0.2);
  }
  actor.refresh();
  const at::Tensor x = at::randn({kRows, 3});
  const Step step = act(actor, space, {x});
  EXPECT_TRUE(at::allclose(step.log_prob, policy.distribution(policy.forward({x}))->log_prob(step.action), 1e-4, 1e-5));
}

TEST(MakeActorTest, TakesTheFastActorWhereItCanRunAndTheModuleElsewhere) {
  MlpPolicy policy = make_policy(Discrete{4});
  EXPECT_NE(dynamic_cast<MlpActor*>(make_actor(policy, {}, kRows, 1, 0).get()), nullptr);
  policy.to(at::kDouble);
  EXPECT_NE(dynamic_cast<ModuleActor*>(make_actor(policy, {}, kRows, 1, 0).get()), nullptr);
  EXPECT_THROW(MlpActor(policy, {}, kRows, 1), ConfigError);
}

TEST(MakeActorTest, GroupsHaveStreamsOfTheirOwn) {
  const ActionSpace space = kBox;
  MlpPolicy policy = make_policy(space);
  const at::Tensor x = at::randn({kRows, 3}, model::seeded(7));
  const auto action = [&](std::uint64_t seed, int group) {
    return act(*make_actor(policy, {}, kRows, seed, group), space, {x}).action;
  };
  EXPECT_TRUE(action(1, 0).equal(action(1, 0)));
  EXPECT_FALSE(action(1, 0).equal(action(1, 1)));
  EXPECT_FALSE(action(1, 0).equal(action(2, 0)));
}

}  // namespace
}  // namespace tandem::rl
