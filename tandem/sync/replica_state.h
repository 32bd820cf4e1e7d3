// sync/replica_state.h: the state of all replicas: the same model, the same values, and whether they still are.
//
// Strategies call require_same_model() and broadcast_state() once, in begin(), and compare before they give their
// state; DataParallel compares every so many steps, too.
//
// Threads: the replica's. All functions are collective: every replica of the group calls them, in the same order, and
// waits for the others until `limits`; errors of the group besides those named.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/replica.h"

namespace tandem::sync {

/// Gathers a text of every replica, in their order.
[[nodiscard]] std::vector<std::string> gather_text(comm::Group& group, const std::string& mine, const Limits& limits);

/// Throws ConfigError on every replica unless all models have the same tensors; gives the count of each replica's
/// parameters, and names the first tensor that differs, with its dtype and shape on each replica.
void require_same_model(Replica& replica, comm::Group& group, const Limits& limits);

/// Gives all replicas the values of replica `root`: parameters, buffers, optimizer state.
void broadcast_state(Replica& replica, comm::Group& group, int root, const Limits& limits);

/// Throws RunError on every replica unless all hold the same bits; names the first tensor that differs, the replicas
/// that differ from replica 0 in it, and what can be done: `advice`, a sentence. Exchanges 128 bits a tensor; takes one
/// pass over the state.
void require_same_state(Replica& replica, comm::Group& group, std::string_view advice, const Limits& limits);

/// The advice of a strategy that gives no state of replicas that differ.
inline constexpr std::string_view kNoStateOfDrifted =
    "No checkpoint is written of this state: go on from the last one, on hosts of one kind";

}  // namespace tandem::sync
