// model/optimizer.h: one fused update of flat parameters.
//
// Adam, AdamW, SGD (momentum, Nesterov, weight decay) and RMSprop with the numbers of torch.optim. State is kept flat;
// step counts are kept per parameter, because a parameter that no shard touched in a step is left alone: value, moments
// and step count. Neighbours with equal counts are updated by one call, so in the usual case a buffer takes one call.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tandem/model/flat_parameters.h"

namespace tandem::model {

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  enum class Decay { kL2, kDecoupled } decay = Decay::kL2;  // kDecoupled: AdamW
};
struct SgdOptions {
  double lr = 1e-2, momentum = 0, dampening = 0, weight_decay = 0;
  enum class Momentum { kClassical, kNesterov } kind = Momentum::kClassical;
};
struct RmspropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
};
/// A moment of which an optimizer keeps a part: those elements of dense buffer `buffer` that it was told to keep, one
/// after the other.
struct PartialMoment {
  /// "exp_avg.f32".
  std::string name;
  std::size_t buffer = 0;
  /// Alive and in place.
  at::Tensor kept;
};

using OptimizerOptions = std::variant<AdamOptions, SgdOptions, RmspropOptions>;

class Optimizer {
 public:
  /// `per_group`: one entry a parameter group, all of the same kind, or a single one for all groups.
  /// Throws ConfigError listing every number out of range, and each parameter whose gradients are sparse where the
  /// rule cannot take them (Adam does, lazily as torch.optim.SparseAdam, and plain SGD). Keeps `parameters` by
  /// reference.
  Optimizer(FlatParameters& parameters, std::vector<OptimizerOptions> per_group);
  ~Optimizer();

  /// From now on keeps moments for, and updates, only these elements of each dense flat buffer: `kept[b]`, in ascending
  /// order, beginning and ending at multiples of 64 bytes. Step counts are kept for all parameters, and sparse buffers
  /// whole. Before the first step() and state(): memory for moments is taken there.
  void keep_only(const std::vector<std::vector<Elements>>& kept);
  /// From now on dense buffers are updated on `home`, in a copy of the values that lies there with the moments
  /// (HomeCopy): step() brings the gradients of what is kept there, gives the parameters the new values and waits
  /// for both. With the arithmetic of that device. After keep_only(), before the first step() and state(). Who writes
  /// to parameters by other means calls state_changed().
  void keep_at(at::Device home);

  /// Applies gradients * `scale` to every parameter whose presence flag is non-zero. `gradients` is not changed. The
  /// numbers do not depend on which other parameters are present. On CUDA it waits for the flags.
  /// The learning rate of group g is its own lr times `lr_factor`.
  /// Throws DataError, and changes nothing, when a sparse gradient is not one of rows.
  void step(const FlatParameters::Gradients& gradients, double scale, double lr_factor);

  /// A step in parts applies gradients that are known before the others, with the bits of step(): begin_parts(), any
  /// number of step_part(), then end_parts() or, when the step fails, undo_parts(). It needs dense buffers on the CPU
  /// that keep all moments, in place. Memory, from the first begin_parts() on: as much again as the parameters and
  /// moments of such buffers, for what the parts overwrite.
  void begin_parts(double scale, double lr_factor);
  /// Updates `elements` of dense buffer `buffer`, which begin and end at multiples of 64 bytes or with the buffer. All
  /// parameters in them count as present, whatever their flags say. Of a parameter, and of the gap behind it, all
  /// elements or none must be updated so before end_parts(), each once and in any order.
  void step_part(const FlatParameters::Gradients& gradients, std::size_t buffer, const Elements& elements);
  /// Updates all other parameters that are present, and counts the step: it stands. Throws DataError as step() does,
  /// and InvariantError when a part of a parameter is missing; both may then be undone.
  void end_parts(const FlatParameters::Gradients& gradients);
  /// Puts parameters, moments and step counts back to what they were at begin_parts(), but for sparse buffers whose
  /// update failed for want of memory. Does nothing outside a step in parts.
  void undo_parts() noexcept;

  /// The options of each group, as they were given.
  [[nodiscard]] const std::vector<OptimizerOptions>& rules() const;
  /// Learning rate of a group before the factor.
  [[nodiscard]] double learning_rate(std::size_t group = 0) const;
  /// Sets the learning rate of group 0; the other groups keep the ratio to it that they were made with. Throws
  /// ConfigError when `lr` is negative or not finite, or when group 0 was made with 0 and another was not.
  void set_learning_rate(double lr);

  /// The state by name, alive and in place: broadcast, hashed and saved from here. For each flat buffer its moments,
  /// laid out as its values, and the int64 step counts of its slots: "exp_avg.f32", "step.f32", "step.f32.sparse".
  /// Without the moments of which a part is kept, which partial_moments() has.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> state() const;
  [[nodiscard]] std::vector<PartialMoment> partial_moments() const;
  /// Tells the optimizer that the tensors of state(), or parameters, were written to (a broadcast or a load).
  void state_changed();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::model
