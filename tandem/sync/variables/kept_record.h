// sync/kept_record.h: what a second process keeps of the variables of SyncReplicas besides their tensors, so that it
// can go on when the first one dies; and who brings it there.
//
// Plain values; KeptElsewhere is called by SyncVariables.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/sync/variables/token_protocol.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

/// Of a replica.
struct KeptSeat {
  TokenProtocol::SeatRecord record;
  std::int64_t applied = -1;  // sequence number of its newest gradient that is part of a step; -1: none
  Outcome outcome;            // of that step
};

/// Of the variables after a step.
struct KeptRecord {
  std::int64_t step = 0;
  double learning_rate = 0;         // of group 0
  double scale = 1, lr_factor = 1;  // of the step's update
  std::vector<KeptSeat> seats;
};

/// A copy of the variables in another process. Both members are called with the variables' lock, one step after the
/// other, and wait for the other process at most as long as they were told to. What they throw fails the run.
class KeptElsewhere {
 public:
  virtual ~KeptElsewhere() = default;
  /// The step of `record` is about to be made of these sums, which may change once this returns.
  virtual void begin_step(const KeptRecord& record, const model::FlatParameters::Gradients& sums) = 0;
  /// It was made here. Returns when it was there as well: tokens of the next may be given out. `state`: gives all
  /// tensors of the variables.
  using State = std::function<std::vector<at::Tensor>()>;
  virtual void finish_step(const KeptRecord& record, const State& state) = 0;
};

}  // namespace tandem::sync
