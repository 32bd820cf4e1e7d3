// sync/strategy_kind.h: the strategies as a user names them. Includes nothing of LibTorch, so that a program's options
// can hold them.
#pragma once

namespace tandem::sync {

/// The alternatives of StrategyOptions, in their order.
enum class StrategyKind { kReplicated, kDivided, kParameterServer, kAsynchronous, kSyncReplicas };

/// Whether numbers depend on which replica is fast; is_reproducible() knows settings of kSyncReplicas that do not.
[[nodiscard]] constexpr bool depends_on_speed(StrategyKind strategy) {
  return strategy == StrategyKind::kAsynchronous || strategy == StrategyKind::kSyncReplicas;
}

/// Which replicas of the run serve variables under kParameterServer.
enum class Servers { kAll, kFirst };

/// Where variables are updated and lie with their optimizer state under kParameterServer.
enum class Variables {
  kOnDevices,  // on their server's own device
  // In the host's memory, whatever device their server computes on, but for tables of sparse gradients. Who writes to
  // such a replica's parameters between steps tells its optimizer, by state_changed().
  kOnCpu,
};

/// What an asynchronous replica's mean gradient is multiplied by.
enum class Scaling {
  kByReplicas,  // 1/N for N replicas: N steps together move as far as one synchronous step
  kNone,        // each step moves as far as a synchronous one
};

/// Which of the gradients that come for a step are averaged under kSyncReplicas.
enum class Acceptance {
  kWhole,  // the first that make the quorum, each with all its variables; summed along the tree in order of worker
           // and sequence, so that the sum does not depend on who came first
  kPerVariable,  // TensorFlow's: a running sum and a count a variable, in order of arrival
};

/// What a row of a sparse gradient is divided by.
enum class SparseMean {
  kByCount,  // what dense gradients are divided by: a gradient without the row counts as zero
  kByIndex,  // TensorFlow's: the share of the gradients that have the row
};

/// Who may use a token, which is the right to compute one gradient for a step.
enum class Tokens {
  kOwn,     // the worker that it is for
  kShared,  // TensorFlow's: whoever comes first
};

/// What the death of a replica means to the others under kSyncReplicas.
enum class OnDeath {
  kEnd,   // the run ends: every other's step throws PeerLost
  kGoOn,  // they go on, as if it had left
};

/// Whether the variables of kSyncReplicas outlive the process that holds them. Of OnDeath::kGoOn.
enum class Standby {
  kNone,  // no: its death ends the run
  // Yes: another rank makes each step, too, before there are tokens of the next, and takes over. One on another host,
  // where there is one.
  kAnotherRank,
};

/// What the learning rate of a step is multiplied by.
enum class RateScaling {
  kNone,
  kByGradients,  // gradients in the step / replicas_to_aggregate
};

/// What is looked at for gradients that are not finite.
enum class GradientCheck {
  kSum,          // the sum over all shards: names the parameter, and the replicas whose losses were not finite
  kEachReplica,  // also each replica's part: names the replicas whose gradients were not, for one more pass over them;
                 // no part is exchanged before the backward pass has ended
};

}  // namespace tandem::sync
