// model/optimizer_state.h: what an Optimizer consists of.
//
// Internal to Optimizer, whose steps are in optimizer.cc. The arithmetic of each optimizer, on one contiguous stretch
// and on the rows of a sparse gradient, is in update_rules.cc. A stretch begins and ends at a multiple of 64 bytes, so
// the kernels' vector loops cover it without a scalar remainder, whose last bits differ: how parameters are cut into
// stretches does not change the numbers.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/model/optimizer.h"

namespace tandem::model {

/// Lists of one tensor each, as torch's fused kernels take them; `moments` as moment_names() orders them.
struct Stretch {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;  // scaled; written to where writes_gradients() says so
  std::array<std::vector<at::Tensor>, 2> moments;
};

/// Memory that the rules work in, made once for each flat buffer.
struct RuleMemory {
  std::vector<at::Tensor> step;  // one float32 scalar where values are updated: the step that update() is told
  at::Tensor scratch;            // RMSprop's denominator, as long as the longest stretch; undefined for the others
};

/// Adds a fault for each number out of range. `where`: "group actor", say.
void check_rule(const OptimizerOptions& options, const std::string& where, std::vector<std::string>& faults);
/// Adds a fault when this rule cannot take sparse gradients.
void check_sparse_rule(const OptimizerOptions& options, const std::string& parameter, std::vector<std::string>& faults);

[[nodiscard]] double lr_of(const OptimizerOptions& options);
/// State besides the step counts, each as large as the values: at most two.
[[nodiscard]] std::vector<std::string> moment_names(const OptimizerOptions& options);
/// Whether neighbours that were updated `a` and `b` times before can go through one call.
[[nodiscard]] bool same_update(const OptimizerOptions& options, std::int64_t a, std::int64_t b);
[[nodiscard]] bool needs_scratch(const OptimizerOptions& options);
[[nodiscard]] bool writes_gradients(const OptimizerOptions& options);

/// The `step`-th update (from 1) of a stretch.
void update(const OptimizerOptions& options, double lr, std::int64_t step, RuleMemory& memory, Stretch& stretch);

/// The `step`-th update of the rows that `gradient` (coalesced, one sparse dimension, scaled) names; all others stay.
/// Adam follows torch.optim.SparseAdam: moments of absent rows do not decay.
void update_rows(const OptimizerOptions& options, double lr, std::int64_t step, const at::Tensor& gradient,
                 at::Tensor& values, std::array<at::Tensor, 2>& moments);

/// Slots begin .. end-1 of a flat buffer.
struct Slots {
  std::size_t begin = 0, end = 0;
};
/// The slots of which `elements` has some, or some of the gap behind them.
[[nodiscard]] Slots slots_in(const FlatBuffer& buffer, const Elements& elements);
/// A slot and the gap behind it.
[[nodiscard]] Elements extent_of(const FlatBuffer& buffer, std::size_t slot);

/// Neighbouring parameters of one group that are updated by the same calls.
struct Run {
  std::size_t first_slot = 0;
  int group = 0;
  std::vector<Stretch> stretches;    // no longer than the scratch for scaled gradients
  std::vector<at::Tensor> unscaled;  // the gradients of each, as they came
  std::vector<Elements> elements;    // of each, in the flat buffer
};

struct BufferState;

/// Which calls make one update of neighbouring parameters of a flat buffer, or of a part of it that begins or ends
/// within a parameter. Neighbours of one group that were updated equally often, as far as the rule cares, go through
/// the same calls. How they are cut does not change the numbers.
class UpdatePlan {
 public:
  /// A plan for these elements of `buffer`.
  UpdatePlan(const FlatBuffer& buffer, const Elements& elements);

  /// Makes the runs for the slots that are `present` (by slot of the buffer) and gradients in `flat`. Does nothing when
  /// the last runs were made for the same cuts and the same memory.
  void make(const BufferState& state, const std::vector<OptimizerOptions>& rules, std::span<const char> present,
            const at::Tensor& flat);
  [[nodiscard]] std::vector<Run>& runs() { return runs_; }

 private:
  enum Cut : char { kAbsent, kStarts, kContinues };
  void cut(const BufferState& state, const std::vector<OptimizerOptions>& rules, std::span<const char> present);
  void make_runs(const BufferState& state, const at::Tensor& flat);

  const Elements elements_;
  const Slots slots_;
  // A Cut for each slot: as it is wanted now, and as it was when the runs were made.
  std::vector<char> wanted_, made_;
  // The memory of the gradients that the runs were made for.
  const void* gradients_ = nullptr;
  std::vector<Run> runs_;
};

/// Keeps what an update overwrites until the update is known to stand, of vectors that are updated together, at the
/// same elements: parameters and their moments, say. keep() comes before the elements are written; undo() brings their
/// bits back, forget() lets the update stand. Memory: as much again as the vectors, taken when it is made.
class UpdateJournal {
 public:
  /// `vectors`: one-dimensional, contiguous, of equal length, in CPU memory that stays where it is.
  explicit UpdateJournal(std::vector<at::Tensor> vectors);

  /// These elements of all vectors are about to be written for the first time since undo() or forget().
  void keep(const Elements& elements);
  /// All elements that were kept are again what they were. Does not fail.
  void undo() noexcept;
  void forget() noexcept { kept_.clear(); }

 private:
  std::vector<at::Tensor> vectors_, copies_;
  std::vector<Elements> kept_;
};

/// The dense flat buffers of the parameters once more, on the device where an optimizer updates them. Source of the
/// idea: tensorpack's SyncMultiGPUParameterServerBuilder with ps_device "cpu", whose variables lie in the host's memory
/// and are read by the devices each step.
///
/// Memory: room on `home` for all parameters and, from the first bring() on, their gradients; only what is kept is ever
/// touched, so no more of the host's memory is taken. Every call waits for its copies.
class HomeCopy {
 public:
  /// Keeps `parameters` by reference. `kept[b]`: what is updated of dense buffer b.
  HomeCopy(const FlatParameters& parameters, std::vector<std::vector<Elements>> kept, c10::Device home);

  /// The copies of FlatParameters::buffers(). A sparse buffer shares the parameters' memory; of a dense one only the
  /// kept elements have values.
  [[nodiscard]] const std::vector<FlatBuffer>& buffers() const { return buffers_; }

  /// Copies the gradients of the kept elements of each dense buffer, and the presence flags, to `home`. The next call
  /// overwrites what is returned.
  const FlatParameters::Gradients& bring(const FlatParameters::Gradients& gradients);
  /// Copies the values of what is kept to the parameters.
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

/// Optimizer state and plans of one flat buffer.
struct BufferState {
  explicit BufferState(const FlatBuffer& of)
      : buffer(&of), present(of.slots.size()), due(present), whole(of, {0, of.values.numel()}), done(present.size()) {}
  /// Slots of the buffer, and the number of updates of each before this step.
  [[nodiscard]] std::size_t slots() const { return present.size(); }
  [[nodiscard]] std::int64_t* step_counts() { return host_steps.mutable_data_ptr<std::int64_t>(); }

  const FlatBuffer* buffer;
  std::vector<Elements> kept;       // all elements, or what keep_only() said
  std::vector<at::Tensor> moments;  // [elements kept] each; empty until they are needed
  at::Tensor steps;                 // int64 [slots], on the parameters' device
  at::Tensor host_steps;            // the same tensor when that is the CPU
  at::Tensor scaled;                // scratch for scaled gradients; undefined for a sparse buffer
  at::Tensor factor;                // a scalar: what scales them
  RuleMemory memory;
  std::vector<char> present, due;  // by slot: whether the step is one of it; and whether the update at hand is
  UpdatePlan whole;
  // For steps in parts: a plan for each range of elements that was a part of a step before.
  std::map<std::pair<std::int64_t, std::int64_t>, UpdatePlan> by_elements;
  std::vector<std::int64_t> done;  // by slot: elements of its extent that parts of this step were of
  std::optional<UpdateJournal> journal;
};

struct Optimizer::State {
  FlatParameters& parameters;
  std::vector<OptimizerOptions> rules;  // one a group
  double lr = 0;                        // of group 0
  std::vector<std::string> names{};     // of the moments
  std::vector<BufferState> buffers{};
  enum class Moments { kWhole, kPartial } moments = Moments::kWhole;  // of dense buffers
  bool has_memory = false;                                            // for moments
  double scale = 1, lr_factor = 1;                                    // of the step at hand
  enum class Step { kWhole, kInParts } step = Step::kWhole;
  std::optional<HomeCopy> home{};  // of keep_at()

  [[nodiscard]] double lr_of_group(std::size_t group) const;
  [[nodiscard]] bool is_partial(const BufferState& its) const {
    return moments == Moments::kPartial && !its.buffer->sparse;
  }
  void add_buffer(const FlatBuffer& buffer);
  void take_memory();
  void keep_from_now();
  void apply(BufferState& its, UpdatePlan& plan);
  void step_dense(BufferState& its, const at::Tensor& flat, const at::Tensor& flags);
  void step_sparse(BufferState& its, const std::vector<at::Tensor>& gradients);
  void step_all(const FlatParameters::Gradients& gradients);
};

}  // namespace tandem::model
