// model/dropout.h: dropout whose mask comes from the shard's generator.
//
// torch::nn::Dropout draws from the default generator, which threads share, so its masks depend on how many replicas
// there are. This one reads model::current_generator(): the same masks on any topology.
//
// Threads: as a module, one thread at a time.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <ostream>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/shard_random.h"

namespace tandem::nn {

/// Throws ConfigError unless 0 <= p <= 1.
[[nodiscard]] inline double checked_probability(double p) {
  if (p >= 0 && p <= 1) return p;
  throw ConfigError(concat("dropout probability ", p, " must be in [0, 1]"));
}

/// Sets each element to zero with probability `p` and divides the others by 1 - p. The mask is drawn on the CPU, with
/// the numbers that torch's own dropout draws there from the same generator. Throws as checked_probability().
[[nodiscard]] inline at::Tensor dropout(const at::Tensor& input, double p) {
  if (checked_probability(p) == 0 || input.numel() == 0) return input;
  // p = 1 multiplies by zero instead of returning zeros, so that NaN stays NaN and gradients have their shapes, as
  // torch's does.
  if (p == 1) return input.mul(at::zeros({}, input.options()));
  at::Tensor mask;
  {
    const at::NoGradGuard no_grad;
    mask = at::empty_like(input, input.options().device(at::kCPU));
    mask.bernoulli_(1 - p, model::current_generator()).div_(1 - p);
    if (!input.is_cpu()) mask = mask.to(input.device());
  }
  return input * mask;
}

/// dropout() in training mode, nothing in evaluation mode.
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(double p = 0.5) : p_(checked_probability(p)) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "tandem::nn::Dropout(p=" << p_ << ")"; }
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const { return is_training() ? dropout(input, p_) : input; }
  [[nodiscard]] double p() const { return p_; }

 private:
  double p_;
};
TORCH_MODULE(Dropout);

}  // namespace tandem::nn
