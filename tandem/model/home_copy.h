// model/home_copy.h: the dense flat buffers of the parameters once more, on the device where an optimizer updates them.
//
// Source of the idea: tensorpack's SyncMultiGPUParameterServerBuilder with ps_device "cpu", whose variables lie in the
// host's memory and are read by the devices each step.
//
// Internal to Optimizer. Threads: single-thread, the replica's. Memory: room on `home` for all parameters and, from
// the first bring() on, their gradients; only what is kept is ever touched, so no more of the host's memory is taken.
#pragma once
#include <c10/core/Device.h>

#include <vector>

#include "tandem/model/flat_parameters.h"

namespace tandem::model {

class HomeCopy {
 public:
  /// Keeps `parameters` by reference. `kept[b]`: what is updated of dense buffer b.
  HomeCopy(const FlatParameters& parameters, std::vector<std::vector<Elements>> kept, c10::Device home);

  /// The copies of FlatParameters::buffers(). A sparse buffer shares the parameters' memory; of a dense one only the
  /// kept elements have values.
  [[nodiscard]] const std::vector<FlatBuffer>& buffers() const { return buffers_; }

  /// Copies the gradients of the kept elements of each dense buffer, and the presence flags, to `home`. The next call
  /// overwrites what is returned. Waits for the copies.
  const FlatParameters::Gradients& bring(const FlatParameters::Gradients& gradients);
  /// Copies the values of what is kept to the parameters. Waits for the copies.
  void give();
  /// Copies the values of what is kept from the parameters.
  void take_values();

 private:
  const FlatParameters& parameters_;
  const std::vector<std::vector<Elements>> kept_;
  const c10::Device home_;
  std::vector<FlatBuffer> buffers_;
  FlatParameters::Gradients gradients_;
};

}  // namespace tandem::model
