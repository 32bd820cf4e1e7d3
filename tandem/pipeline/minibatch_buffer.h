// pipeline/minibatch_buffer.h: a few batches that the learner goes over several times each, in turn.
//
// After RLlib's MinibatchBuffer: slots that hold a batch for a number of passes and are then filled again. The first
// batch gets `first_passes`, each later one a pass more up to `passes`, so that not all slots run out at once. Unlike
// RLlib's, an empty slot keeps nobody waiting while another holds a batch: it is filled when there is one to fill it
// with.
//
// Threads: single-thread, the learner's. Blocking: next() waits only while every slot is empty.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// `slots`: batches that the learner alternates between. `passes`: how often each of them is learned from.
struct MinibatchBufferOptions {
  std::size_t slots = 1;
  int passes = 1, first_passes = 1;  // first_passes <= passes
};

/// `Batch`: what `source` gives. Destroying it gives its memory back to the loaders.
template <typename Batch>
class MinibatchBuffer {
  /// `passes`: planned for this batch. `left`: passes that have not begun, so 0 during the last one.
  struct Slot {
    std::optional<Batch> batch;
    int passes = 0, left = 0;
  };

 public:
  /// One pass over a batch. The end of the last pass empties the slot: what the batch holds is given back then, also
  /// when learning has failed.
  class Pass {
   public:
    Pass(Pass&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (slot_ != nullptr && slot_->left == 0) slot_->batch.reset();
    }
    [[nodiscard]] Batch& batch() const { return *slot_->batch; }
    [[nodiscard]] bool first() const { return slot_->left + 1 == slot_->passes; }
    [[nodiscard]] bool last() const { return slot_->left == 0; }
    /// Makes this the last pass.
    void give_up() { slot_->left = 0; }

   private:
    friend class MinibatchBuffer;
    explicit Pass(Slot* slot) : slot_(slot) { --slot->left; }
    Slot* slot_;
  };

  /// Throws InvariantError for no slot, no pass, or first_passes above passes.
  explicit MinibatchBuffer(const MinibatchBufferOptions& options)
      : passes_(options.passes), next_passes_(options.first_passes), slots_(options.slots) {
    TANDEM_CHECK(options.slots > 0 && options.first_passes > 0 && options.first_passes <= options.passes);
  }

  /// Returns the next pass, over the batch of the slot whose turn it is, or nothing when all slots are empty and
  /// `source` gave no batch within the limits. The pass must end before the next call. `source` gives batches by
  /// pop(limits) and try_pop(), as LoadedBuffers does.
  template <typename Source>
  [[nodiscard]] std::optional<Pass> next(Source& source, const Limits& limits) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[turn_];
      turn_ = (turn_ + 1) % slots_.size();
      if (!slot.batch) fill(slot, source.try_pop());
      if (slot.batch) return Pass(&slot);
    }
    Slot& slot = slots_[turn_];
    fill(slot, source.pop(limits));
    if (!slot.batch) return std::nullopt;
    turn_ = (turn_ + 1) % slots_.size();
    return Pass(&slot);
  }

  /// Slots that hold a batch.
  [[nodiscard]] std::size_t held() const {
    return static_cast<std::size_t>(
        std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.batch.has_value(); }));
  }

 private:
  // Each batch gets one pass more than the one before, up to `passes`, so that the slots do not run empty together.
  void fill(Slot& slot, std::optional<Batch> batch) {
    if (!batch) return;
    slot.batch.emplace(std::move(*batch));
    slot.passes = slot.left = next_passes_;
    next_passes_ = std::min(next_passes_ + 1, passes_);
  }

  const int passes_;
  int next_passes_;
  std::vector<Slot> slots_;
  // The slot that the next call looks at first.
  std::size_t turn_ = 0;
};

}  // namespace tandem::pipeline
