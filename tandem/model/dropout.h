// model/dropout.h: dropout whose mask comes from the shard's generator.
//
// torch::nn::Dropout draws from the default generator, which threads share, so its masks depend on how many replicas
// there are. This one reads model::current_generator(): the same masks on any topology.
//
// Threads: as a module, one thread at a time.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <ostream>

namespace tandem::nn {

/// Sets each element to zero with probability `p` and divides the others by 1 - p. The mask is drawn on the CPU, with
/// the numbers that torch's own dropout draws there from the same generator. Throws ConfigError unless 0 <= p <= 1.
[[nodiscard]] at::Tensor dropout(const at::Tensor& input, double p);

/// dropout() in training mode, nothing in evaluation mode.
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(double p = 0.5);
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) const;
  [[nodiscard]] double p() const { return p_; }

 private:
  double p_;
};
TORCH_MODULE(Dropout);

}  // namespace tandem::nn
