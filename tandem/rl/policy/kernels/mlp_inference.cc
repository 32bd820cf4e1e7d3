#include "tandem/rl/policy/kernels/mlp_inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

std::vector<PackedLayer> make_layers(const Mlp* net) {
  std::vector<PackedLayer> layers;
  for (std::size_t i = 0; net != nullptr && i < net->layers().size(); ++i) {
    layers.emplace_back(net->options().sizes[i], net->options().sizes[i + 1]);
  }
  return layers;
}

// Packs the weights from whatever device they lie on. On the CPU nothing is copied before packing.
void pack(const Mlp* net, std::vector<PackedLayer>& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const at::Tensor weight = net->layers()[i]->weight.cpu().contiguous(),
                     bias = net->layers()[i]->bias.cpu().contiguous();
    layers[i].pack(weight.const_data_ptr<float>(), bias.const_data_ptr<float>());
  }
}

// The longest padded row that any layer writes: the size of scratch memory for a row.
std::int64_t widest(const std::vector<PackedLayer>& layers) {
  std::int64_t most = 0;
  for (const PackedLayer& layer : layers) most = std::max(most, padded(layer.outputs));
  return most;
}

// Copies rows without their padding.
void copy_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t size, float* to) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * size, from + r * stride, static_cast<std::size_t>(size) * sizeof(float));
  }
}

}  // namespace

MlpInference::MlpInference(const MlpPolicy& policy, std::int64_t max_rows, InstructionSet set)
    : policy_(policy),
      max_rows_(max_rows),
      kernels_(&mlp_kernels(set)),
      trunk_(make_layers(policy_.trunk())),
      actor_(make_layers(&policy_.actor())),
      critic_(make_layers(&policy_.critic())) {
  for (const at::Tensor& parameter : policy_.parameters()) {
    if (parameter.scalar_type() == at::kFloat) continue;
    throw ConfigError(concat("this inference needs a policy of float32; a parameter is ", parameter.scalar_type(),
                             ". Use its forward() instead"));
  }
  for (AlignedFloats& scratch : shared_) scratch = AlignedFloats(max_rows * widest(trunk_));
  for (AlignedFloats& scratch : own_) scratch = AlignedFloats(max_rows * std::max(widest(actor_), widest(critic_)));
  refresh();
}

void MlpInference::refresh() {
  at::NoGradGuard no_grad;
  pack(policy_.trunk(), trunk_);
  pack(&policy_.actor(), actor_);
  pack(&policy_.critic(), critic_);
}

MlpInference::Rows MlpInference::apply(const Mlp& net, const std::vector<PackedLayer>& layers, std::size_t begin,
                                       std::size_t end, Rows x, std::int64_t rows, AlignedFloats* scratch) {
  for (std::size_t i = begin; i < end; ++i) {
    float* y = scratch[i % 2].data();
    const std::int64_t stride = padded(layers[i].outputs);
    kernels_->dense(x.data, x.stride, rows, layers[i], y);
    if (net.is_activated(i)) kernels_->activate(net.options().activation, y, y, rows * stride);
    x = {y, stride};
  }
  return x;
}

// The trunk runs first, if there is one; then actor and critic from its outputs, as far as their outputs are wanted.
void MlpInference::run(const float* features, std::int64_t rows, const Outputs& outputs) {
  TANDEM_CHECK(rows <= max_rows_, rows, " rows, made for ", max_rows_);
  Rows x{features, policy_.encoder().size()};
  if (!trunk_.empty()) x = apply(*policy_.trunk(), trunk_, 0, trunk_.size(), x, rows, shared_);
  if (outputs.head != nullptr || outputs.latent != nullptr) {
    const std::size_t head = actor_.size() - 1;
    const Rows latent = apply(policy_.actor(), actor_, 0, head, x, rows, own_);
    if (outputs.latent != nullptr) copy_rows(latent.data, latent.stride, rows, latent_size(), outputs.latent);
    const Rows logits = apply(policy_.actor(), actor_, head, head + 1, latent, rows, own_);
    if (outputs.head != nullptr) copy_rows(logits.data, logits.stride, rows, head_size(), outputs.head);
  }
  if (outputs.value != nullptr) {
    const Rows value = apply(policy_.critic(), critic_, 0, critic_.size(), x, rows, own_);
    copy_rows(value.data, value.stride, rows, 1, outputs.value);
  }
}

}  // namespace tandem::rl
