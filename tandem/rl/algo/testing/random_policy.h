// rl/algo/testing/random_policy.h: MLP policies of random shape, in float64 for comparisons, and rows for them.
#pragma once
#include <ATen/core/grad_mode.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl::testing {

/// How many of `all` random problems a test looks at. Under AddressSanitizer, where each takes ten times as long, every
/// third: wrong memory is found on the shapes that all kinds of policies come with in the first sixteen.
constexpr int problems(int all) {
#ifdef TANDEM_ADDRESS_SANITIZER
  return (all + 2) / 3;
#else
  return all;
#endif
}

// An MlpPolicy in float64; features of leaves without a torso are float32 as ever.
struct InDoubles : ActorCritic {
  explicit InDoubles(MlpPolicy& policy) : ActorCritic(policy.spec(), policy.family()), policy_(policy) {}
  PolicyOutput forward(const Observation& observation) override {
    torch::Tensor x = features(observation);
    const auto layers = [](const Mlp& net, torch::Tensor y) {
      for (std::size_t i = 0; i < net.layers().size(); ++i) {
        y = torch::linear(y, net.layers()[i]->weight, net.layers()[i]->bias);
        if (net.is_activated(i)) y = activate(net.options().activation, y);
      }
      return y;
    };
    if (policy_.trunk() != nullptr) x = layers(*policy_.trunk(), x);
    PolicyOutput output{.action_parameters = {layers(policy_.actor(), x)},
                        .value = layers(policy_.critic(), x).squeeze(-1)};
    if (family() == ActionFamily::kStateDependentNoise) {
      const auto& head = policy_.actor().layers().back();
      const std::size_t last = policy_.actor().layers().size() - 1;
      for (std::size_t i = 0; i < last; ++i) {
        const auto& layer = policy_.actor().layers()[i];
        x = activate(policy_.actor().options().activation, torch::linear(x, layer->weight, layer->bias));
      }
      output.action_parameters = {torch::linear(x, head->weight, head->bias), x.detach()};
    }
    if (policy_.log_std().defined()) output.action_parameters.push_back(policy_.log_std());
    return output;
  }
  [[nodiscard]] torch::Tensor features(const Observation& observation) const {
    const Encoder& encoder = policy_.encoder();
    std::vector<torch::Tensor> parts;
    for (const auto& [leaf, torso] : encoder.torsos())
      parts.push_back(torso->convolve(observation[leaf].to(torch::kDouble) / torso->largest()).flatten(1));
    Observation flat;
    for (const std::size_t leaf : encoder.flat_leaves()) flat.push_back(observation[leaf]);
    if (!flat.empty()) parts.push_back(encoder.flat().encode(flat).to(torch::kDouble));
    return torch::cat(parts, 1);
  }
  MlpPolicy& policy_;
};

/// In float64. Over `seed`, all kinds of actions, activations, trunks, masks and observations come.
inline std::shared_ptr<MlpPolicy> random_policy(int seed, std::mt19937& random) {
  const auto below = [&random](std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
  };
  torch::manual_seed(seed);
  const std::int64_t size = below(7) + 1;
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {
      Leaf{.name = "vector", .type = ElementType::kFloat32, .shape = {below(40) + 1}, .low = {}, .high = {}}};
  if (seed % 4 == 3) {  // as a dictionary with a choice in it
    spec.observation.push_back(
        Leaf{.name = "choice", .type = ElementType::kInt64, .shape = {}, .low = {0}, .high = {4}});
  }
  const auto n = static_cast<std::size_t>(size);
  if (seed % 8 == 5) {  // pixels, alone or behind other leaves
    if (seed % 16 == 5) spec.observation.clear();
    spec.observation.push_back(Leaf{.name = "image", .type = ElementType::kUInt8, .shape = {2, 5, 6}});
  }
  if (seed % 3 == 0) spec.action = Discrete{size + 1};
  if (seed % 3 == 1) spec.action = MultiDiscrete{{size + 1, 2, 5}};
  if (seed % 3 == 2) spec.action = Box{std::vector<double>(n, -1), std::vector<double>(n, 1)};
  spec.has_action_mask = seed % 3 != 2 && seed % 2 == 0;
  MlpPolicyOptions shape{.hidden = {},
                         .activation = std::array{Activation::kTanh, Activation::kRelu, Activation::kSilu,
                                                  Activation::kGelu, Activation::kElu}[below(5)],
                         .trunks = below(2) == 0 ? Trunks::kSeparate : Trunks::kShared,
                         .log_std_init = -0.3,
                         .policy_gain = 0.7,
                         .torso = {.channels = {3, 4}, .blocks = 1}};
  if (seed % 3 == 2) {
    shape.family = std::array{ActionFamily::kNormal, ActionFamily::kStateDependentNoise,
                              ActionFamily::kSquashedNormal}[static_cast<std::size_t>(seed / 3 % 3)];
  }
  for (std::int64_t depth = below(4); depth > 0; --depth) shape.hidden.push_back(below(150) + 1);
  auto policy =
      std::make_shared<MlpPolicy>(spec, shape, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
  for (const torch::Tensor& parameter : policy->parameters()) {  // biases and log_std have their part, too
    const torch::NoGradGuard no_grad;
    parameter.add_(torch::randn_like(parameter), 0.05);
  }
  policy->to(torch::kDouble);
  return policy;
}

/// `rows` of its observations.
inline Observation random_observation(const Spec& spec, std::int64_t rows) {
  Observation observation;
  for (const Leaf& leaf : spec.observation) {
    const std::vector<std::int64_t> shape = with_rows({rows}, leaf);
    observation.push_back(leaf.type == ElementType::kFloat32 ? torch::randn(shape)
                          : leaf.type == ElementType::kUInt8 ? torch::randint(256, shape, torch::kByte)
                                                             : torch::randint(5, shape, torch::kLong));
  }
  return observation;
}

/// Masks of `rows` rows, each with an option of every choice allowed; undefined where the spec has none.
inline torch::Tensor random_mask(const Spec& spec, std::int64_t rows) {
  if (!spec.has_action_mask) return {};
  torch::Tensor mask = torch::randint(2, {rows, mask_elements(spec.action)}, torch::kByte);
  mask.slice(1, 0, torch::indexing::None, 1).select(1, 0).fill_(1);
  std::int64_t first = 0;
  if (const auto* several = std::get_if<MultiDiscrete>(&spec.action)) {
    for (const std::int64_t n : several->n) mask.select(1, std::exchange(first, first + n)).fill_(1);
  }
  return mask;
}

/// Whether the entropy is an estimate, whose draws are others in float32 than in float64.
inline bool draws_entropy(const ActorCritic& policy) { return policy.family() == ActionFamily::kSquashedNormal; }

// The largest difference, over the largest number but at least 1.
inline double difference(const torch::Tensor& got, const torch::Tensor& wanted) {
  const double scale = std::max(1.0, wanted.abs().max().item<double>());
  return (got.to(torch::kDouble) - wanted).abs().max().item<double>() / scale;
}

}  // namespace tandem::rl::testing
