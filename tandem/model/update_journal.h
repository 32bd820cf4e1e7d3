// model/update_journal.h: keeps what an update overwrites until the update is known to stand.
//
// The journal serves vectors that are updated together, at the same elements: parameters and their moments, say. keep()
// comes before the elements are written; undo() brings their bits back, forget() lets the update stand.
//
// Internal to Optimizer. Threads: single-thread, the replica's. Memory: as much again as the vectors, taken when it is
// made.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tandem::model {

class UpdateJournal {
 public:
  /// `vectors`: one-dimensional, contiguous, of equal length, in CPU memory that stays where it is.
  explicit UpdateJournal(std::vector<at::Tensor> vectors);

  /// Elements begin .. end-1 of all vectors are about to be written for the first time since undo() or forget().
  void keep(std::int64_t begin, std::int64_t end);
  /// All elements that were kept are again what they were. Does not fail.
  void undo() noexcept;
  void forget() noexcept { kept_.clear(); }

 private:
  struct Span {
    std::int64_t begin = 0, end = 0;
  };
  std::vector<at::Tensor> vectors_, copies_;
  std::vector<Span> kept_;
};

}  // namespace tandem::model
