// sync/replicated.h: synchronous data parallelism in lockstep: every replica has all parameters and takes part in each
// step.
//
// Each step the mean gradient over all shards of the run is formed once, on all replicas (gradient_mean.h): norm and
// clipping take the whole of it. Then the parameters are updated, in one of two ways:
//
// - Every replica makes the same update and keeps all optimizer state. As tensorpack's SyncMultiGPUReplicatedBuilder,
//   whose sum in place of the average is Divisor::kShard, and RLlib's LocalSyncParallelOptimizer, whose average over
//   the towers that have a gradient is Divisor::kPresent.
// - Each element of the parameters has one owner (Ownership), which alone keeps optimizer state for it, updates it
// and
//   gives its new value to all. Step counts of parameters, and all of sparse buffers, are kept and updated by every
//   replica. This is DividedOptions and ParameterServerOptions.
//
// Parameters and optimizer state have the same bits in both ways, on all replicas and on any number of them, unless
// Optimizer::keep_at() has an update made on another kind of device. whole_state() compares the replicas, and throws
// RunError naming tensor and replicas where something else has changed them.
//
// Threads: see Strategy. Errors: those of Strategy; with owners, the failure of a peer leaves some parameters updated
// and some not.
#pragma once
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/comm/owned_parts.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/optimizer.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

/// Which member of a group updates which elements of the flat parameters. A plan is made from the parameters' layout
/// alone, so all members make the same one. Sparse buffers have no owner: every member updates them, from gradients
/// that all have.
///
/// By flat buffer: its elements in ascending order and without gaps, the owners of all; nothing for a sparse buffer.
using Ownership = std::vector<std::vector<comm::OwnedPart>>;

/// Every member owns an equal part of each buffer, whatever parameters lie there. Parts end at multiples of 64 bytes,
/// as the optimizer asks, so a buffer of a few elements has fewer owners. This is stage 1 of ZeRO (Rajbhandari et al.
/// 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"): for n members, Adam's moments take
/// 2/n of the parameters' memory on each, and a step sends (n-1)/n of the parameters' bytes more than without owners.
[[nodiscard]] Ownership divide_equally(const model::FlatParameters& parameters, int members);

/// Every parameter has one owner among members 0 .. servers-1: the largest comes first, and each goes to the member
/// with the fewest bytes so far (of those the lowest). As tensorpack's SyncMultiGPUParameterServerBuilder places its
/// variables; unlike there, where a variable lies in one place and is read from there, every replica has a copy to
/// compute with.
[[nodiscard]] Ownership place_by_load(const model::FlatParameters& parameters, int servers);

/// The elements that `member` owns, by buffer.
[[nodiscard]] std::vector<std::vector<model::Elements>> elements_of(const Ownership& ownership, int member);

class Replicated final : public Strategy {
 public:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order. `ownership`: the same
  /// on all members, for a replica whose optimizer was not used yet; empty: every replica updates everything. Throws
  /// ConfigError when max_grad_norm is not positive.
  Replicated(Replica& replica, comm::Group& group, const MeanOptions& options, Ownership ownership = {});

  void begin(const Limits& limits) override;
  void open(int shard) override { mean_.open(shard); }
  void close(double weight, double loss) override { mean_.close(weight, loss); }
  StepReport step(double lr_factor, const Limits& limits) override;
  /// Takes part in the others' steps until all have left, so its state stays equal to theirs. `limits` are for all of
  /// those steps together.
  void leave(const Limits& limits) override;
  /// With owners, a replica holds the whole of one moment at a time beside the state in one piece.
  [[nodiscard]] model::NamedTensors whole_state(const Limits& limits) override;
  void load_whole_state(const model::NamedTensors& state) override;

 private:
  void update(const MeanGradient& mean, const Limits& limits);
  [[nodiscard]] std::vector<model::PartialMoment> partial_moments();

  Replica& replica_;
  comm::Group& group_;
  const Ownership ownership_;
  GradientMean mean_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::sync
