// model/optimizer_state.h: what an Optimizer consists of.
//
// Internal to Optimizer, whose whole steps are in optimizer.cc and whose steps in parts are in optimizer_parts.cc.
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/model/home_copy.h"
#include "tandem/model/optimizer.h"
#include "tandem/model/update_journal.h"
#include "tandem/model/update_plan.h"

namespace tandem::model {

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
