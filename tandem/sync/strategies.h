// sync/strategies.h: the strategies there are, as plain values, and the strategy object that a value describes.
//
//     const StrategyOptions options = ReplicatedOptions{.mean = {.max_grad_norm = 0.5}};
//     const std::unique_ptr<Strategy> strategy = make_strategy(options, replica, group);
//
// A strategy of its own is one class, one struct of options with a `mean`, an entry in the variant and in
// StrategyKind, and one in strategies.cc.
//
// Threads: make_strategy() on the replica's. Nothing here waits for peers.
#pragma once
#include <memory>
#include <variant>

#include "tandem/sync/divided.h"
#include "tandem/sync/parameter_server.h"
#include "tandem/sync/replicated.h"
#include "tandem/sync/strategy_kind.h"
#include "tandem/sync/variables/asynchronous.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace tandem::sync {

using StrategyOptions =
    std::variant<ReplicatedOptions, DividedOptions, ParameterServerOptions, AsynchronousOptions, SyncReplicasOptions>;

/// The options of a strategy that was only named.
[[nodiscard]] StrategyOptions options_of(StrategyKind kind);

/// The same strategy with another mean: clipping is the training algorithm's business, the strategy the user's.
[[nodiscard]] StrategyOptions with_mean(StrategyOptions options, const MeanOptions& mean);

/// Whether the numbers of a run of `replicas` replicas do not depend on which of them is fast.
[[nodiscard]] bool is_reproducible(const StrategyOptions& options, int replicas);

/// Whether its take_account() gives something: not all gradients need be applied, nor all replicas be in each step.
[[nodiscard]] bool keeps_account(const StrategyOptions& options);

/// The replica's own strategy object. Neither `replica` nor `group` is owned; the group's members are the run's
/// replicas in order, and all give the same options. Before the replica's first step. Throws ConfigError when a number
/// is out of range.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica,
                                                      comm::Group& group);

}  // namespace tandem::sync
