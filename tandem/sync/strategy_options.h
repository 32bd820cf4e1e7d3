// sync/strategy_options.h: the strategies that a run can have and the options of each, as plain values, with the rules
// that the options obey.
//
// Includes nothing of LibTorch, so that a program can hold these structs among its own options and check them without a
// model. make_strategy() (strategies.h) makes the strategy object that a value describes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {

/// The strategies as a user names them: the alternatives of StrategyOptions, in their order.
enum class StrategyKind { kReplicated, kDivided, kParameterServer, kAsynchronous, kSyncReplicas, kLocalSteps };

/// Whether every step is made of the gradients of all replicas, so that numbers do not depend on how many there are.
[[nodiscard]] constexpr bool is_lockstep(StrategyKind strategy) {
  return strategy == StrategyKind::kReplicated || strategy == StrategyKind::kDivided ||
         strategy == StrategyKind::kParameterServer;
}

/// Whether numbers depend on which replica is fast; is_reproducible() knows settings of kSyncReplicas that do not.
[[nodiscard]] constexpr bool depends_on_speed(StrategyKind strategy) {
  return strategy == StrategyKind::kAsynchronous || strategy == StrategyKind::kSyncReplicas;
}

/// Which replicas of the run serve variables under kParameterServer.
enum class Servers { kAll, kFirst };

/// Where variables are updated and lie with their optimizer state under kParameterServer.
enum class Variables {
  kOnDevices,  // on their server's own device
  // In the host's memory, whatever device their server computes on, but for tables of sparse gradients. A program that
  // writes to such a replica's parameters between steps has to call its optimizer's state_changed().
  kOnCpu,
};

/// The factor of an asynchronous replica's mean gradient.
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

/// The divisor of a row of a sparse gradient.
enum class SparseMean {
  kByCount,  // that of dense gradients: a gradient without the row counts as zero
  kByIndex,  // TensorFlow's: the share of the gradients that have the row
};

/// Who may use a token, which is the right to compute one gradient for a step.
enum class Tokens {
  kOwn,     // the worker that it is for
  kShared,  // TensorFlow's: whoever comes first
};

/// How the death of a replica concerns the others under kSyncReplicas.
enum class OnDeath {
  kEnd,   // the run ends: every other's step throws PeerLost
  kGoOn,  // they go on, as if it had left
};

/// Whether the variables of kSyncReplicas outlive the process that holds them. Only with OnDeath::kGoOn.
enum class Standby {
  kNone,  // no: its death ends the run
  // Yes: another rank, on another host if there is one, makes each step, too, before there are tokens of the next, and
  // takes over.
  kAnotherRank,
};

/// What is done with the mean of the replicas' ways under kLocalSteps. A replica's way is the difference between its
/// parameters and those that all had after the exchange before.
enum class Outer {
  kAverage,   // it is gone: all go on from the mean of their parameters (local SGD)
  kNesterov,  // it is the gradient of a step of SGD with Nesterov momentum (DiLoCo)
};

/// How the replicas' ways travel under kLocalSteps.
enum class Wire {
  kFull,  // in the parameters' dtype, or float32 if that is narrower
  kInt8,  // 8 bits an element and a float32 for each 256; what is rounded off is part of the next way
  kInt4,  // 4 bits an element, likewise
};

/// A factor of a step's learning rate.
enum class RateScaling {
  kNone,
  kByGradients,  // gradients in the step / replicas_to_aggregate
};

/// Where to look for gradients that are not finite.
enum class GradientCheck {
  kSum,          // the sum over all shards: names the parameter, and the replicas whose losses were not finite
  kEachReplica,  // also each replica's part: names the replicas whose gradients were not, for one more pass over them;
                 // no part is exchanged before the backward pass has ended
};

/// The divisor of a parameter's summed gradient.
enum class Divisor {
  kTotal,    // the weight of all shards: one without a gradient counts as zero (the mean of the whole batch)
  kPresent,  // the share of the shards that have a gradient for the parameter (RLlib's average_gradients);
             // takes the shards' weights as equal, and sparse gradients as kTotal does
  kShard,    // the mean weight of a shard: shards of equal weight add up (tensorpack's average=False), so the
             // mean of kTotal times the number of shards that had a pass
};

/// How the mean gradient of a step is formed.
struct MeanOptions {
  std::optional<double> max_grad_norm{};  // clip the mean gradient to this global norm; none: no clipping
  Divisor divisor = Divisor::kTotal;
  GradientCheck check = GradientCheck::kSum;
};

/// Every replica keeps all parameters and all optimizer state, and makes the same update from the same mean gradient.
struct ReplicatedOptions {
  MeanOptions mean{};
};

/// As replicated, but each replica updates an equal part of the parameters and keeps optimizer state for that part
/// only. Saves memory, and sends the new parameters besides the gradients. The same bits.
struct DividedOptions {
  MeanOptions mean{};
};

/// As replicated, but each whole parameter is updated by one replica, its server, which alone keeps optimizer state for
/// it. The same bits, except for variables that are updated on another kind of device (Variables::kOnCpu).
struct ParameterServerOptions {
  MeanOptions mean{};
  Servers servers = Servers::kAll;
  Variables variables = Variables::kOnDevices;
};

/// Every replica applies its own gradients to variables that all share, without waiting for the others
/// (docs/asynchronous.md). At most one of the two bounds on staleness may be given; with neither, gradients are applied
/// however old they are. Numbers depend on which replica is fast.
struct AsynchronousOptions {
  MeanOptions mean{};  // over the replica's own shards
  Scaling scaling = Scaling::kByReplicas;
  // Stale-synchronous parallel (Ho et al. 2013): a replica that has made so many steps more than the slowest one waits
  // for it before its next. With N replicas no gradient is then staler than (N - 1)(2 steps + 1) updates. 0: all go in
  // step.
  std::optional<std::int64_t> wait_for_slower{};
  // A gradient that is more updates stale than this is dropped, and its replica is told so. With N replicas that begin
  // together, N - 1 is the least that lets each apply its own.
  std::optional<std::int64_t> drop_staler{};
};

/// A step is made of the first gradients that come for it, and later ones are dropped (docs/sync_replicas.md). Numbers
/// depend on which replica is fast, unless a step takes one gradient of each replica; is_reproducible() says so.
struct SyncReplicasOptions {
  MeanOptions mean{};                             // of a step; clips after the gradients are averaged
  std::optional<double> max_replica_grad_norm{};  // clips each replica's gradient before
  std::optional<int> replicas_to_aggregate{};     // gradients of a step; none: as many as replicas
  std::optional<int> total_num_replicas{};        // replicas that a step is planned for; none: all of the run
  Acceptance acceptance = Acceptance::kWhole;
  SparseMean sparse_mean = SparseMean::kByCount;
  Tokens tokens = Tokens::kOwn;
  std::optional<int> initial_tokens{};  // with Tokens::kShared, of the first step; none: replicas_to_aggregate
  RateScaling rate_scaling = RateScaling::kNone;
  OnDeath on_death = OnDeath::kEnd;
  Standby standby = Standby::kNone;                            // kAnotherRank takes at least two processes
  Clock::duration standby_patience = std::chrono::minutes(1);  // with a silent standby; the run fails then
  // Exponential moving averages of parameters are kept with this decay, in [0, 1); none: they are not kept.
  std::optional<double> average_decay{};
  std::vector<std::string> average_of{};  // parameters that equal one of these or begin with it and a dot; empty: all
};

/// Every replica makes optimizer steps of its own; every so many of them, and when all agree (Strategy::agree()), the
/// replicas exchange how far they came (docs/local_steps.md). For slow links: 1 / `every` of the bytes of kReplicated.
/// The number of replicas is part of what a run is.
struct LocalStepsOptions {
  MeanOptions mean{};       // over the replica's own shards
  std::int64_t every = 50;  // a replica's steps between two exchanges of a parameter; H of the papers
  Outer outer = Outer::kAverage;
  double outer_lr = 0.7, outer_momentum = 0.9;  // of kNesterov
  // Parameters are exchanged in so many parts, one after the other, each every `every` steps (Streaming DiLoCo).
  int fragments = 1;
  // An exchange is over this many steps after it has begun, or before another collective of the program, and travels
  // meanwhile. Less than every / fragments. A replica keeps what its steps do in between.
  std::int64_t overlap = 0;
  Wire wire = Wire::kFull;
};

/// The choices of TensorFlow's optimizer: gradients of each variable are averaged on their own, rows of sparse
/// gradients are divided by the gradients that have them, and any worker may use a token.
[[nodiscard]] inline SyncReplicasOptions tensorflow_compatible() {
  SyncReplicasOptions options;
  options.acceptance = Acceptance::kPerVariable;
  options.sparse_mean = SparseMean::kByIndex;
  options.tokens = Tokens::kShared;
  return options;
}

/// The strategy of a run with its options. The alternatives are in the order of StrategyKind.
using StrategyOptions = std::variant<ReplicatedOptions, DividedOptions, ParameterServerOptions, AsynchronousOptions,
                                     SyncReplicasOptions, LocalStepsOptions>;

/// The options of a strategy that was only named.
[[nodiscard]] inline StrategyOptions options_of(StrategyKind kind) {
  const StrategyOptions all[]{ReplicatedOptions{},   DividedOptions{},      ParameterServerOptions{},
                              AsynchronousOptions{}, SyncReplicasOptions{}, LocalStepsOptions{}};
  TANDEM_CHECK(static_cast<std::size_t>(kind) < std::size(all), "strategy ", static_cast<int>(kind));
  return all[static_cast<std::size_t>(kind)];
}

/// The strategy with another mean: the training algorithm chooses the clipping, the user the strategy.
[[nodiscard]] inline StrategyOptions with_mean(StrategyOptions options, const MeanOptions& mean) {
  std::visit([&mean](auto& each) { each.mean = mean; }, options);
  return options;
}

/// Whether the numbers of a run of `replicas` replicas do not depend on which of them is fast.
[[nodiscard]] inline bool is_reproducible(const StrategyOptions& options, int replicas) {
  if (std::holds_alternative<AsynchronousOptions>(options)) return false;
  const auto* synchronous = std::get_if<SyncReplicasOptions>(&options);
  if (synchronous == nullptr) return true;
  return synchronous->replicas_to_aggregate.value_or(replicas) == replicas && !synchronous->total_num_replicas &&
         synchronous->acceptance == Acceptance::kWhole && synchronous->tokens == Tokens::kOwn;
}

/// Whether the strategy's take_account() gives something: not every gradient need be applied, nor every replica be in
/// each step.
[[nodiscard]] inline bool keeps_account(const StrategyOptions& options) {
  return std::holds_alternative<AsynchronousOptions>(options) || std::holds_alternative<SyncReplicasOptions>(options);
}

// --- rules ---------------------------------------------------------------------------------------------------------

/// An option whose value breaks a rule. `option` and `problem` make a sentence: "max_grad_norm is -1; give ...".
struct StrategyFault {
  std::string option;
  std::string problem;
};

/// The faults of options, all that there are; empty when none breaks a rule. The strategies' constructors throw them as
/// one ConfigError, so a program that wants to report them together with others asks here before.
[[nodiscard]] inline std::vector<StrategyFault> faults_of(const MeanOptions& options) {
  if (!options.max_grad_norm || *options.max_grad_norm > 0) return {};
  return {
      {"max_grad_norm", concat("is ", *options.max_grad_norm, "; give a positive number, or none for no clipping")}};
}

[[nodiscard]] inline std::vector<StrategyFault> faults_of(const AsynchronousOptions& options) {
  std::vector<StrategyFault> faults = faults_of(options.mean);
  const auto &wait = options.wait_for_slower, &drop = options.drop_staler;
  if (wait && *wait < 0)
    faults.push_back({"asynchronous.wait_for_slower", concat("is ", *wait, " steps; a replica waits 0 or more ahead")});
  if (drop && *drop < 0)
    faults.push_back({"asynchronous.drop_staler", concat("is ", *drop, " updates; a gradient is 0 or more stale")});
  if (wait && drop) {
    faults.push_back({"asynchronous.drop_staler",
                      "bounds staleness, and so does asynchronous.wait_for_slower; give one of the two"});
  }
  return faults;
}

/// In a run of `replicas` replicas. Whether the group can survive a death is not known here: the strategy's constructor
/// looks at that.
[[nodiscard]] inline std::vector<StrategyFault> faults_of(const SyncReplicasOptions& options, int replicas) {
  std::vector<StrategyFault> faults = faults_of(options.mean);
  const auto fault = [&faults](const char* option, std::string problem) {
    faults.push_back({concat("sync_replicas.", option), std::move(problem)});
  };
  const int aggregate = options.replicas_to_aggregate.value_or(replicas);
  const int total = options.total_num_replicas.value_or(replicas);
  const int needed = aggregate > total ? aggregate - total : 0;
  if (options.max_replica_grad_norm && !(*options.max_replica_grad_norm > 0)) {
    fault("max_replica_grad_norm",
          concat("is ", *options.max_replica_grad_norm, "; give a positive number, or none for no clipping"));
  }
  if (aggregate < 1) fault("replicas_to_aggregate", concat("is ", aggregate, " gradients a step; at least 1"));
  if (total < 1) fault("total_num_replicas", concat("is ", total, "; at least 1"));
  if (options.initial_tokens && options.tokens == Tokens::kOwn) {
    fault("initial_tokens",
          "is for shared tokens; with tokens of their own, all replicas have one of the first step each");
  } else if (options.initial_tokens && *options.initial_tokens < needed) {
    fault("initial_tokens",
          concat("is too few to complete the first step: ", *options.initial_tokens, " given, ", needed,
                 " needed, for ", total, " replicas begin without one and a step takes ", aggregate, " gradients"));
  }
  if (options.acceptance == Acceptance::kPerVariable && options.mean.divisor == Divisor::kPresent) {
    fault(
        "acceptance",
        "is kPerVariable, which divides each variable by the gradients that had it, and Divisor::kPresent would do so "
        "again; leave the divisor at kTotal");
  }
  if (options.mean.check == GradientCheck::kEachReplica) {
    faults.push_back(
        {"gradient_check",
         "is each_replica (GradientCheck::kEachReplica), which has nothing to add under sync_replicas: each "
         "replica's gradient is looked at before it is added to any other; leave it at sum"});
  }
  if (options.standby != Standby::kNone && options.on_death != OnDeath::kGoOn) {
    fault("standby",
          "takes over so that the others go on, and OnDeath::kEnd ends the run at a death; give OnDeath::kGoOn, or "
          "Standby::kNone");
  }
  if (options.average_decay && !(*options.average_decay >= 0 && *options.average_decay < 1))
    fault("average_decay", concat("is a decay of ", *options.average_decay, "; at least 0 and less than 1"));
  return faults;
}

[[nodiscard]] inline std::vector<StrategyFault> faults_of(const LocalStepsOptions& options) {
  std::vector<StrategyFault> faults = faults_of(options.mean);
  const auto fault = [&faults](const char* option, std::string problem) {
    faults.push_back({concat("local_steps.", option), std::move(problem)});
  };
  if (options.every < 1) fault("every", concat("is ", options.every, " steps; at least 1"));
  if (options.fragments < 1) fault("fragments", concat("is ", options.fragments, "; at least 1"));
  if (!(options.outer_lr > 0)) fault("outer_lr", concat("is ", options.outer_lr, "; give a positive number"));
  if (!(options.outer_momentum >= 0 && options.outer_momentum < 1))
    fault("outer_momentum", concat("is ", options.outer_momentum, "; at least 0 and less than 1"));
  if (options.every < 1 || options.fragments < 1) return faults;
  const std::int64_t apart = options.every / options.fragments;
  if (apart < 1) {
    fault("fragments", concat("is ", options.fragments, ", and an exchange of one of them is due every ", options.every,
                              " / ", options.fragments, " steps; give at most ", options.every));
  } else if (options.overlap < 0 || options.overlap >= apart) {
    fault("overlap", concat("is ", options.overlap, " steps, and the next exchange begins after ", apart,
                            "; at least 0 and less than that"));
  }
  if (options.overlap > 0 && options.wire != Wire::kFull) {
    fault("overlap", "is for wire: full; rounded values are exchanged in one go, which is what makes them few bytes");
  }
  return faults;
}

/// Throws ConfigError with all faults, if there are any.
inline void require_none(const std::vector<StrategyFault>& faults) {
  std::vector<std::string> sentences;
  for (const StrategyFault& each : faults) sentences.push_back(concat(each.option, " ", each.problem));
  if (!sentences.empty()) throw ConfigError(std::move(sentences));
}

}  // namespace tandem::sync
