// sync/strategies.h: makes the strategy object that a value of StrategyOptions describes.
//
//     const StrategyOptions options = ReplicatedOptions{.mean = {.max_grad_norm = 0.5}};
//     const std::unique_ptr<Strategy> strategy = make_strategy(options, replica, group);
//
// To add a strategy, write its class here beside the others, a struct of options with a `mean` in strategy_options.h,
// with an entry in the variant and in StrategyKind, and a make() in strategies.cc.
//
// Threads: make_strategy() on the replica's. Nothing here waits for peers.
#pragma once
#include <memory>

#include "tandem/sync/divided.h"
#include "tandem/sync/parameter_server.h"
#include "tandem/sync/replicated.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/asynchronous.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace tandem::sync {

/// The replica's own strategy object. Neither `replica` nor `group` is owned; the group's members are the run's
/// replicas in order, and all give the same options. Before the replica's first step. Throws ConfigError when a number
/// is out of range.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica,
                                                      comm::Group& group);

}  // namespace tandem::sync
