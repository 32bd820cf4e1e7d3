// sync/strategies.h: makes the strategy object that a value of StrategyOptions describes.
//
//     const StrategyOptions options = ReplicatedOptions{.mean = {.max_grad_norm = 0.5}};
//     const std::unique_ptr<Strategy> strategy = make_strategy(options, replica, group);
//
// To add a strategy, write its class, a struct of options with a `mean` in strategy_options.h, with an entry in the
// variant and in StrategyKind, and a make() in strategies.cc.
//
// Threads: the replica's. Waits for nobody.
#pragma once
#include <memory>

#include "tandem/comm/group.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// The replica's own strategy object. Neither `replica` nor `group` is owned; the group's members are the run's
/// replicas in order, and all give the same options. Before the replica's first step. Throws ConfigError when an option
/// is out of range.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica,
                                                      comm::Group& group);

}  // namespace tandem::sync
