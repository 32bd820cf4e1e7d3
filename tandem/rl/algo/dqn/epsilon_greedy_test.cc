// What explores in DQN, by the module and by kernels.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tandem/rl/algo/dqn/dqn.h"

namespace tandem::rl {
namespace {

Spec three_choices() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {4}, .low = {}, .high = {}}};
  spec.action = Discrete{3};
  return spec;
}

// The values of the best actions in two steps with one observation.
std::vector<std::vector<float>> values_of_steps(DqnPolicy& policy, const DqnOptions& options,
                                                std::optional<InstructionSet> kernels) {
  constexpr std::int64_t kActors = 5;
  const double epsilon = 0;
  EpsilonGreedy actor(policy, options, epsilon, Philox(9), kActors, kernels);
  at::manual_seed(3);
  const Observation observation{at::randn({kActors, 4})};
  std::vector<std::vector<float>> all;
  for (int step = 0; step < 2; ++step) {
    std::vector<std::int64_t> action(kActors);
    std::vector<float> log_prob(kActors), value(kActors);
    actor.act(observation, {}, {.discrete = action.data(), .log_prob = log_prob.data(), .value = value.data()});
    all.push_back(value);
  }
  return all;
}

TEST(EpsilonGreedyTest, NoisyLayersAreDrawnAnewInEachStepAlikeByKernelsAndByTheModule) {
  for (const DqnReturn returns : {DqnReturn::kMean, DqnReturn::kCategorical, DqnReturn::kQuantiles}) {
    DqnOptions options;
    options.returns = returns;
    options.streams = DqnStreams::kDueling;
    options.exploration = DqnExploration::kNoisy;
    options.atoms = 7;
    DqnPolicy policy(three_choices(), {.hidden = {20}}, options, at::make_generator<at::CPUGeneratorImpl>(2));
    const auto by_module = values_of_steps(policy, options, {});
    const auto by_kernels = values_of_steps(policy, options, detect_instruction_set());
    EXPECT_NE(by_module[0], by_module[1]);
    for (std::size_t step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < by_module[step].size(); ++i)
        EXPECT_NEAR(by_kernels[step][i], by_module[step][i], 1e-5) << "step " << step;
    }
    options.exploration = DqnExploration::kEpsilon;  // the same network by its means, as it is evaluated
    const auto by_means = values_of_steps(policy, options, {});
    EXPECT_EQ(by_means[0], by_means[1]);
  }
}

TEST(EpsilonGreedyTest, ValuesBehindATorsoAreThoseOfTheParametersAtRefresh) {
  constexpr std::int64_t kActors = 3;
  const DqnOptions options;
  Spec spec = three_choices();
  spec.observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {2, 9, 7}, .low = {}, .high = {}}};
  DqnPolicy policy(spec, {.hidden = {20}, .torso = {.channels = {4}, .blocks = 1}}, options,
                   at::make_generator<at::CPUGeneratorImpl>(2));
  const double epsilon = 0;
  EpsilonGreedy actor(policy, options, epsilon, Philox(9), kActors, detect_instruction_set());
  const Observation observation{at::randint(256, {kActors, 2, 9, 7}, at::kByte)};
  const at::NoGradGuard no_grad;
  for (int time = 0; time < 2; ++time) {
    for (at::Tensor& parameter : policy.parameters()) parameter.add_(0.1 * time);
    actor.refresh();
    std::vector<std::int64_t> action(kActors);
    std::vector<float> log_prob(kActors), value(kActors);
    actor.act(observation, {}, {.discrete = action.data(), .log_prob = log_prob.data(), .value = value.data()});
    const at::Tensor wanted = policy.forward(observation).value;
    for (std::size_t i = 0; i < kActors; ++i) {
      const auto size = wanted[static_cast<std::int64_t>(i)].item<float>();
      EXPECT_NEAR(value[i], size, 1e-5 * std::max(1.0F, std::abs(size))) << "actor " << i << ", time " << time;
    }
  }
}

}  // namespace
}  // namespace tandem::rl
