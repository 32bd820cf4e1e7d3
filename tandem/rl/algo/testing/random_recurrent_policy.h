// rl/algo/testing/random_recurrent_policy.h: recurrent policies of random shape, in float64 for comparisons.
#pragma once
#include <memory>
#include <random>

#include "tandem/rl/algo/testing/random_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl::testing {

// A RecurrentPolicy in float64, whose features are float32 as ever.
struct RecurrentInDoubles : RecurrentActorCritic {
  explicit RecurrentInDoubles(RecurrentPolicy& policy)
      : RecurrentActorCritic(policy.spec(), policy.family()), policy_(policy) {}
  [[nodiscard]] std::int64_t state_size() const override { return policy_.state_size(); }
  SequenceOutput forward_sequences(const SequenceInput& input) override {
    const torch::Tensor features = policy_.features().encode(input.observation).to(torch::kDouble);
    const std::int64_t sequences = input.state.size(0);
    std::vector<torch::Tensor> latents, states;
    std::int64_t column = 0;
    for (const auto& branch : policy_.branches()) {
      const std::int64_t size = branch->cell->state_size();
      const torch::Tensor x = branch->mlp->forward(features).view({features.size(0) / sequences, sequences, -1});
      RecurrentCell::Output output = branch->cell->forward(x, input.state.narrow(1, column, size), input.start);
      column += size;
      latents.push_back(output.steps.flatten(0, 1));
      states.push_back(output.state);
    }
    const auto linear = [](const Mlp& head, const torch::Tensor& x) {
      return torch::linear(x, head.layers()[0]->weight, head.layers()[0]->bias);
    };
    SequenceOutput result{.output = {.action_parameters = {linear(policy_.action_head(), latents.front())},
                                     .value = linear(policy_.value_head(), latents.back()).squeeze(-1)},
                          .state = torch::cat(states, 1)};
    if (policy_.log_std().defined()) result.output.action_parameters.push_back(policy_.log_std());
    return result;
  }
  RecurrentPolicy& policy_;
};

/// In float64. Over `seed`, all kinds of cells, actions, activations, trunks, masks and observations but images come.
inline std::shared_ptr<RecurrentPolicy> random_recurrent_policy(int seed, std::mt19937& random) {
  Spec spec = random_policy(seed, random)->spec();
  // Torsos in front of a memory have no kernels.
  std::erase_if(spec.observation, [](const Leaf& leaf) { return leaf.type == ElementType::kUInt8; });
  if (spec.observation.empty())
    spec.observation = {Leaf{.name = "vector", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  const auto below = [&random](std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
  };
  RecurrentPolicyOptions shape{.mlp = {.hidden = {},
                                       .activation = std::array{Activation::kTanh, Activation::kRelu, Activation::kSilu,
                                                                Activation::kGelu, Activation::kElu}[below(5)],
                                       .trunks = below(2) == 0 ? Trunks::kSeparate : Trunks::kShared,
                                       .log_std_init = -0.3,
                                       .policy_gain = 0.7},
                               .cell = seed % 2 == 0 ? CellKind::kLstm : CellKind::kGru,
                               .size = std::array<std::int64_t, 5>{1, 16, 5, 64, 70}[below(5)]};
  for (std::int64_t depth = below(4); depth > 0; --depth) shape.mlp.hidden.push_back(below(90) + 1);
  auto policy =
      std::make_shared<RecurrentPolicy>(spec, shape, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
  for (const torch::Tensor& parameter : policy->parameters()) {
    const torch::NoGradGuard no_grad;
    parameter.add_(torch::randn_like(parameter), 0.05);
  }
  policy->to(torch::kDouble);
  return policy;
}

}  // namespace tandem::rl::testing
