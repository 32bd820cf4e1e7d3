// sync/gradient_compression.h: how dense gradients travel between the members in fewer bytes.
//
// A compression takes the place of the sum over the members. It is given each member's part of the mean (its rows'
// share of all rows is in it already) and leaves the mean, with the same bits on every member. Presence flags, tallies,
// buffers of the module and sparse gradients are exchanged as they are.
//
//     sync::DataParallel parallel(model, *world.group, {.compression = sync::cast_compression({.to = at::kBFloat16})});
//
// Tandem has cast_compression.h, top_k_compression.h and power_sgd_compression.h. To write your own, write a class with
// reduce() and describe(), and a function that makes it.
//
// The error of a step can be remembered and added to the next step's gradients (error feedback; Stich et al. 2018,
// "Sparsified SGD with Memory"). That memory differs from rank to rank and belongs to a run's state: save state() on
// every rank, into a file of its own (model::write_safetensors), and put it back with model::copy_named(saved,
// state()). A run that goes on with other ranks starts with an empty memory, and what was not sent yet is lost.
//
// Threads: the replica's. Blocking: reduce() waits for all members until `limits`. Errors: those of the group.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {

/// The dense gradients of one flat buffer.
struct GradientBucket {
  at::Tensor values;                        // [count], and zeros between the parameters
  std::vector<at::Tensor> views;            // one a parameter, shaped as it, into `values`
  std::vector<model::ParameterSlot> slots;  // their names and places
  std::vector<char> present;                // whether some member's loss reached it; a gradient that none made is zero
                                            // everywhere, and nothing is applied to its parameter in this step
};

class GradientCompression {
 public:
  virtual ~GradientCompression() = default;

  /// Replaces the values of every bucket by their sum over all members, or an approximation. Called once a step, with
  /// the same buckets in the same order. A NaN or an infinity of any member must reach every member's result: the step
  /// then reports the tensor and describe(), and what this member remembers is garbage.
  virtual void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) = 0;

  /// For messages: "a cast to Half, whose largest number is 65504".
  [[nodiscard]] virtual std::string describe() const = 0;

  /// The tensors that this member remembers, by name; the live ones. Empty when there is nothing to remember.
  [[nodiscard]] virtual model::NamedTensors state() { return {}; }
};

/// Makes a compression for these buckets, whose values are not yet meaningful. `group` outlives it. An empty one: none.
using MakeCompression =
    std::function<std::unique_ptr<GradientCompression>(std::span<const GradientBucket> buckets, comm::Group& group)>;

}  // namespace tandem::sync
