// model/autocast.h: forward passes in bfloat16 or float16 with parameters and gradients in float32.
//
//     at::Tensor loss;
//     {
//       const model::Autocast autocast(model::AutocastOptions{.device = at::kCUDA});
//       loss = loss_of(net, batch);
//     }                                     // ended before the backward pass, which uses the types of the forward one
//     parallel.backward(loss, rows);
//
// Inside, operations that gain from it (matrix products, convolutions) take their arguments in `dtype`, those that
// would lose too much (norms, losses) in float32, as LibTorch's lists say (torch.autocast in Python). A weight is cast
// once a scope and the cast is kept until the outermost scope of the thread ends; so parameters must not be changed,
// and gradients not be switched off and on, inside of one. What is kept is shared by the threads of a process and let
// go by whichever ends its scope: others then cast again.
//
// The gradients of float16 may underflow to zero for lack of exponents: bfloat16 needs no scaling of the loss, float16
// may, which is the caller's to do.
//
// Threads: the state is that of the calling thread; create and destroy on one thread, the innermost first.
#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace tandem::model {

struct AutocastOptions {
  c10::DeviceType device = c10::DeviceType::CPU;  // whose operations are cast
  c10::ScalarType dtype = c10::ScalarType::BFloat16;
};

class Autocast {
 public:
  /// Throws ConfigError for a dtype other than BFloat16 and Half.
  explicit Autocast(const AutocastOptions& options);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool enabled_before_;
  const c10::ScalarType dtype_before_;
};

}  // namespace tandem::model
