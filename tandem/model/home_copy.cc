#include "tandem/model/home_copy.h"

#include <ATen/ATen.h>

#include <utility>

namespace tandem::model {
namespace {

// Copies the elements of `which` between two flat vectors, of which one may lie on another device. Waits for each copy.
void copy_elements(const at::Tensor& to, const at::Tensor& from, const std::vector<Elements>& which) {
  for (const Elements& each : which)
    to.narrow(0, each.begin, each.size()).copy_(from.narrow(0, each.begin, each.size()));
}

}  // namespace

HomeCopy::HomeCopy(const FlatParameters& parameters, std::vector<std::vector<Elements>> kept, c10::Device home)
    : parameters_(parameters), kept_(std::move(kept)), home_(home), buffers_(parameters.buffers()) {
  for (FlatBuffer& buffer : buffers_) {
    if (!buffer.sparse) buffer.values = at::empty(buffer.values.sizes(), buffer.values.options().device(home_));
  }
  take_values();
}

// Memory for the gradients is taken by the first call. Sparse gradients stay where they are.
const FlatParameters::Gradients& HomeCopy::bring(const FlatParameters::Gradients& gradients) {
  gradients_.flat.resize(buffers_.size());
  gradients_.presence.resize(buffers_.size());
  gradients_.sparse = gradients.sparse;
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].sparse) continue;
    at::Tensor& here = gradients_.flat[b];
    if (!here.defined()) here = at::empty(gradients.flat[b].sizes(), gradients.flat[b].options().device(home_));
    copy_elements(here, gradients.flat[b], kept_[b]);
    const std::int64_t count = buffers_[b].values.numel();
    gradients_.presence[b] = here.narrow(0, count, here.numel() - count);
    gradients_.presence[b].copy_(gradients.presence[b]);
  }
  return gradients_;
}

void HomeCopy::give() {
  gradients_.sparse.clear();
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].sparse) copy_elements(parameters_.buffers()[b].values, buffers_[b].values, kept_[b]);
  }
}

void HomeCopy::take_values() {
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].sparse) copy_elements(buffers_[b].values, parameters_.buffers()[b].values, kept_[b]);
  }
}

}  // namespace tandem::model
