#include "bench/rl/own_policies.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>

#include "tandem/rl/policy/action_family.h"

namespace tandem::bench {
namespace {

namespace nn = torch::nn;

// Logits and the value, from one linear layer.
rl::PolicyOutput output_of(const at::Tensor& both, std::int64_t options) {
  return {.action_parameters = {both.narrow(-1, 0, options)}, .value = both.select(-1, options)};
}

class Residual final : public rl::ActorCritic {
 public:
  explicit Residual(const rl::Spec& spec) : ActorCritic(spec), options_(rl::head_size(spec.action)) {
    const std::int64_t features = spec.observation.front().shape.front();
    first_ = register_module("first", nn::Linear(features, kUnits));
    for (int i = 0; i < 4; ++i) {
      const auto name = [i](const char* part) { return part + std::to_string(i); };
      norms_.push_back(register_module(name("norm"), nn::LayerNorm(nn::LayerNormOptions({kUnits}))));
      ups_.push_back(register_module(name("up"), nn::Linear(kUnits, kUnits)));
      downs_.push_back(register_module(name("down"), nn::Linear(kUnits, kUnits)));
    }
    head_ = register_module("head", nn::Linear(kUnits, options_ + 1));
  }
  rl::PolicyOutput forward(const rl::Observation& observation) override {
    at::Tensor x = first_(observation.front());
    for (std::size_t i = 0; i < norms_.size(); ++i) x = x + downs_[i](ups_[i](norms_[i](x)).relu());
    return output_of(head_(x), options_);
  }

 private:
  static constexpr std::int64_t kUnits = 128;
  const std::int64_t options_;
  nn::Linear first_{nullptr}, head_{nullptr};
  std::vector<nn::LayerNorm> norms_;
  std::vector<nn::Linear> ups_, downs_;
};

class Transformer final : public rl::ActorCritic {
 public:
  explicit Transformer(const rl::Spec& spec) : ActorCritic(spec), options_(rl::head_size(spec.action)) {
    embedding_ = register_module("embedding", nn::Linear(1, kWidth));
    place_ = register_parameter("place", at::zeros({spec.observation.front().shape.front(), 1, kWidth}));
    nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(64).dropout(0));
    encoder_ = register_module("encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 2)));
    head_ = register_module("head", nn::Linear(kWidth, options_ + 1));
  }
  // Tokens come first, as the encoder has them.
  rl::PolicyOutput forward(const rl::Observation& observation) override {
    const at::Tensor tokens = embedding_(observation.front().t().unsqueeze(-1)) + place_;
    return output_of(head_(encoder_(tokens).mean(0)), options_);
  }

 private:
  static constexpr std::int64_t kWidth = 32;
  const std::int64_t options_;
  nn::Linear embedding_{nullptr}, head_{nullptr};
  nn::TransformerEncoder encoder_{nullptr};
  at::Tensor place_;
};

}  // namespace

std::shared_ptr<rl::ActorCritic> residual_policy(const rl::Spec& spec) { return std::make_shared<Residual>(spec); }

std::shared_ptr<rl::ActorCritic> transformer_policy(const rl::Spec& spec) {
  return std::make_shared<Transformer>(spec);
}

}  // namespace tandem::bench
