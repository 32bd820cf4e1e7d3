// DQN's loss and gradients by kernels against those of autograd, which are the definition.
#include "tandem/rl/algo/dqn/fused_dqn.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

enum class Sees { kNumbers, kNumbersAndAnImage };

// Rows that are no multiple of a block, and a mask that forbids some of the next actions.
struct FusedCase {
  static constexpr std::int64_t kCount = 70;
  static Spec spec(Sees sees) {
    Spec spec;
    spec.id = "Test-v0";
    spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {4}, .low = {}, .high = {}}};
    if (sees == Sees::kNumbersAndAnImage)
      spec.observation.push_back(
          {.name = "image", .type = ElementType::kUInt8, .shape = {2, 9, 7}, .low = {}, .high = {}});
    spec.action = Discrete{3};
    spec.has_action_mask = true;
    return spec;
  }
  FusedCase(const DqnOptions& with, Sees sees)
      : options(with),
        policy(spec(sees), networks, options, generator),
        target(spec(sees), networks, options, generator),
        rows(make_transitions(spec(sees), kCount, 0)) {
    const at::NoGradGuard no_grad;
    at::manual_seed(9);
    const double change = sees == Sees::kNumbers ? 0.2 : 0.05;  // convolutions add up
    for (at::Tensor& parameter : policy.parameters()) parameter.add_(at::randn_like(parameter), change);
    for (at::Tensor* each : {&rows.observation[0], &rows.next_observation[0], &rows.reward}) each->normal_();
    for (std::size_t leaf = 1; leaf < rows.observation.size(); ++leaf) {
      rows.observation[leaf].random_(0, 256);
      rows.next_observation[leaf].random_(0, 256);
    }
    rows.action.random_(0, 3);
    rows.discount.bernoulli_(0.8).mul_(0.97);
    rows.weight.uniform_(0.2, 1);
    rows.next_action_mask.random_(0, 2);
    rows.next_action_mask.select(1, 1).fill_(1);
  }
  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : policy.parameters()) {
      all.push_back(parameter.grad().clone());
      parameter.mutable_grad().zero_();
    }
    return all;
  }
  DqnOptions options;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(4);
  NetworkOptions networks{.hidden = {33, 20}, .torso = {.channels = {4, 17}, .blocks = 1}};
  DqnPolicy policy;
  ReturnNetwork target;
  TransitionRows rows;
};

void expect_as_autograd(const DqnOptions& options, Sees sees) {
  SCOPED_TRACE(concat("returns ", static_cast<int>(options.returns), ", streams ", static_cast<int>(options.streams),
                      ", target ", static_cast<int>(options.target), ", exploration ",
                      static_cast<int>(options.exploration)));
  FusedCase it(options, sees);
  std::optional<DqnNoise> noise;
  if (options.exploration == DqnExploration::kNoisy) noise = draw_noise(it.policy.network(), 7);
  OffPolicySums wanted_sums, sums;
  std::vector<float> wanted_errors, errors;
  const learner::ShardLoss wanted =
      dqn_loss(it.policy, it.target, it.rows, options, wanted_sums, &wanted_errors, noise ? &*noise : nullptr);
  (wanted.loss * static_cast<double>(FusedCase::kCount)).backward();
  const std::vector<at::Tensor> wanted_gradients = it.take_gradients();
  FusedDqn fused(it.policy.network(), it.target, FusedCase::kCount + 3, options, detect_instruction_set());
  if (noise) fused.draw(*noise);
  const learner::WrittenLoss loss = fused.loss(it.rows, sums, &errors);
  EXPECT_NEAR(loss.loss, wanted.loss.item<double>(), 1e-5);
  EXPECT_NEAR(sums.value, wanted_sums.value, 1e-3);
  ASSERT_EQ(errors.size(), wanted_errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(errors[i], wanted_errors[i], 2e-5) << "row " << i;
  const std::vector<at::Tensor> gradients = it.take_gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const double size = std::max(1.0, wanted_gradients[i].abs().max().item<double>());
    EXPECT_LE((gradients[i] - wanted_gradients[i]).abs().max().item<double>(), 1e-5 * size) << "parameter " << i;
  }
}

TEST(FusedDqnTest, EveryFormOfTheLossAndItsGradientsAreThoseOfAutograd) {
  DqnOptions options;
  options.atoms = 21;
  options.least_return = -3;
  options.most_return = 4;
  for (const DqnReturn returns : {DqnReturn::kMean, DqnReturn::kCategorical, DqnReturn::kQuantiles}) {
    for (const DqnStreams streams : {DqnStreams::kOne, DqnStreams::kDueling}) {
      for (const DqnTarget target : {DqnTarget::kMax, DqnTarget::kDouble}) {
        options.returns = returns;
        options.streams = streams;
        options.target = target;
        for (const DqnExploration exploration : {DqnExploration::kEpsilon, DqnExploration::kNoisy}) {
          options.exploration = exploration;
          expect_as_autograd(options, Sees::kNumbers);
        }
      }
    }
  }
}

TEST(FusedDqnTest, BehindATorsoTheLossAndItsGradientsAreThoseOfAutograd) {
  DqnOptions options;
  expect_as_autograd(options, Sees::kNumbersAndAnImage);
  options.streams = DqnStreams::kDueling;
  options.target = DqnTarget::kDouble;
  options.exploration = DqnExploration::kNoisy;
  expect_as_autograd(options, Sees::kNumbersAndAnImage);
}

}  // namespace
}  // namespace tandem::rl
