// rl/algo/impala/fused_vtrace.h: the losses of IMPALA and APPO for an MlpPolicy, with the gradients of all its
// parameters, without autograd.
//
// V-trace needs log pi and V of a whole trajectory before any row has a derivative, so the rows go through the network
// twice (fused_block.h): forward for those, then forward and backward. impala_loss() with autograd is
// the definition; this gives the same numbers to rounding, in a fraction of the time for small networks. The bits
// depend on the rows, the parameters and the instruction set alone.
//
// Threads: single-thread, the replica's. Ownership: policies are not owned and must outlive it. `Real`: of the
// parameters and of the columns, but for observations.
#pragma once
#include <optional>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/fused_block.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/impala/vtrace.h"

namespace tandem::rl {

/// One trajectory's numbers, in float64 and time-major, as V-trace takes and gives them. The memory is used again from
/// batch to batch.
/// Float64 is used for Real = float, too: rounding would add up over the T steps of the recursion.
struct VtraceMemory {
  /// Takes the steps' rewards, discounts and the log-probabilities of the policy that acted. Throws InvariantError for
  /// columns that are not of `Real`. One object a replica: it has the memory of a batch.
  template <typename Real>
  void take(const TrajectoryView& seen, double gamma);
  /// Computes log_ratio, value_target and advantage. `corrected` and value must be filled.
  void trace(const ImpalaOptions& options);

  std::int64_t steps = 0, rows = 0;
  const std::int64_t* next = nullptr;           // of decisions; of the view's memory
  std::vector<double> acted, reward, discount;  // [T, N]; acted: log mu
  std::vector<double> corrected;                // [T, N]: log pi, or pi_T of APPO, whose ratio to mu V-trace corrects
  std::vector<double> log_ratio, value;         // [T, N], [T + 1, N]; of decisions [C], [C + B]
  std::vector<double> value_target, advantage;  // [T, N]
};

template <typename Real>
class FusedVtrace {
 public:
  /// `target`: APPO's, which is read only and gets no gradients; null with IMPALA. Throws ConfigError when this
  /// processor does not have `set`.
  FusedVtrace(const MlpPolicy& policy, const MlpPolicy* target, InstructionSet set) : block_(policy, set) {
    if (target != nullptr) target_.emplace(*target, set);
  }

  /// Computes impala_loss() of one trajectory's rows, with the gradients of all parameters; a GradientFunction but for
  /// its other arguments. Throws EnvError for an observation that is out of the spec's
  /// bounds, and InvariantError for a kl_coef above 0, which has no kernels. The weight of the result is the number of
  /// rows. Overwrites the .grad of every parameter.
  learner::WrittenLoss run(const learner::ShardRows& rows, const ImpalaOptions& options,
                           const std::optional<AppoOptions>& appo, ImpalaNumbers& numbers);

 private:
  FusedBlock<Real> block_;
  std::optional<FusedBlock<Real>> target_;
  TrajectoryView seen_;
  VtraceMemory trace_;
};

extern template class FusedVtrace<float>;
extern template class FusedVtrace<double>;

}  // namespace tandem::rl
