#include "tandem/device/vector_math.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tandem::device {

void begin_vector_math() {
  // A static is initialised by one thread while the others wait.
  [[maybe_unused]] static const bool has_begun = [] {
    const at::NoGradGuard no_grad;
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) (void)at::zeros({16}, type).tanh();
    return true;
  }();
}

}  // namespace tandem::device
