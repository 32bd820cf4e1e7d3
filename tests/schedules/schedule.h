// A random schedule of SyncReplicas' workers: who is slow, comes late, dies, comes back, and when its data ends.
//
// Threads: play() on the worker's; the rest anywhere.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/sync/variables/sync_variables.h"
#include "tandem/sync/variables/variable_link.h"

namespace tandem::schedules {

/// From coming to going. kDie: while it computes; kDieWaiting: when it has offered a gradient and waits for a token.
enum class End { kLeave, kDie, kDieWaiting };
struct Life {
  int gradients = 0;
  End end = End::kLeave;
};

struct Worker {
  int comes_after_ms = 0;  // 0: it is there from the beginning
  int step_us = 0;         // that it computes for a gradient
  std::vector<Life> lives;
};

struct Schedule {
  sync::SyncReplicasOptions options;
  std::vector<Worker> workers;  // of 2 to 6
};

/// The same for the same number. Worker 0 is there from the beginning.
[[nodiscard]] Schedule draw(std::uint64_t number);

/// What a worker knows of its gradients.
struct Account {
  std::int64_t offered = 0;    // and an answer came
  std::int64_t dropped = 0;    // of these
  std::int64_t uncertain = 0;  // offered besides, but it died before the answer
  std::int64_t deaths = 0;

  Account& operator+=(const Account& other);
};

/// A worker's replica; the gradient of worker k is 1 at element k. Applied ones are counted by the values then: element
/// k is minus their number.
[[nodiscard]] sync::Replica make_replica(int worker, const Schedule& schedule);

/// The variables, before anybody has come.
[[nodiscard]] std::shared_ptr<sync::SyncVariables> make_variables(const Schedule& schedule);

using Connect = std::function<std::unique_ptr<sync::VariableLink>(sync::Replica& replica)>;
/// How a worker dies, which `so_far` counts already. `last` makes the offer that it dies in, if it does in one, and
/// returns when it has an answer.
using Die = std::function<void(const Account& so_far, sync::VariableLink& link,
                               const std::function<void(const Limits&)>& last)>;
/// Lives one of the worker's lives. Returns only from one that was left, or where `die` does.
[[nodiscard]] Account play(const Schedule& schedule, int worker, const Life& life, const Connect& connect,
                           const Die& die);

/// Compares what the workers know with the totals and values of the variables, when all have gone. A line for each
/// thing that does not add up.
[[nodiscard]] std::string faults(const Schedule& schedule, const std::vector<Account>& accounts,
                                 const std::vector<sync::GradientTotals>& totals, const std::vector<double>& values);

/// The elements of the values.
[[nodiscard]] std::vector<double> values_of(sync::SyncVariables& variables, const Schedule& schedule);

}  // namespace tandem::schedules
