#include "tandem/model/dropout.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/shard_random.h"

namespace tandem::nn {
namespace {

double checked(double p) {
  if (p >= 0 && p <= 1) return p;
  throw ConfigError(concat("dropout probability ", p, " must be in [0, 1]"));
}

}  // namespace

// p = 1 multiplies by zero instead of returning zeros, so that NaN stays NaN and gradients have their shapes, as
// torch's does.
at::Tensor dropout(const at::Tensor& input, double p) {
  checked(p);
  if (p == 0 || input.numel() == 0) return input;
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

DropoutImpl::DropoutImpl(double p) : p_(checked(p)) {}

void DropoutImpl::pretty_print(std::ostream& stream) const { stream << "tandem::nn::Dropout(p=" << p_ << ")"; }

at::Tensor DropoutImpl::forward(const at::Tensor& input) const { return is_training() ? dropout(input, p_) : input; }

}  // namespace tandem::nn
