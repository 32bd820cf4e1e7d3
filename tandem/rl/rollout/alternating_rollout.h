// rl/rollout/alternating_rollout.h: the env groups of one rollout worker, in splits that take turns: while the
// environments of one step, the policy acts for another. Sample Factory's double-buffered sampling (Petrenko et al.
// 2020, section 3.1).
//
// Of S splits, split k has groups k, k + S, k + 2 S and so on. Its environments step on a thread of their own, one
// group after the other; the policy acts on the caller's, for the splits in their order, and for all rows of one group
// together. Which rows are a batch for the policy is so fixed, and no timing decides what is sampled: in turn on one
// thread the fragments have the same bits. One split alone has no other to act for, and is stepped on the caller's
// thread.
//
// Threads: single-thread, the rollout worker's; groups are other threads' within collect() only. Owns the groups.
// Blocking: collect() waits for the environments of the split whose turn it is, however long they take.
// Errors: what the environments or the policy throw, once no group is inside a step any more.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/concurrency/thread_team.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

/// Where the environments of several splits step.
enum class Stepping {
  kInTurn,      // on the thread on which the policy acts
  kOwnThreads,  // on a thread a split
};

/// Group i belongs to split i % splits. The results do not depend on `stepping`, only the time does.
class AlternatingRollout {
 public:
  /// `groups`: as many for each of at least one of `splits`, all with fragments of as many steps. `name`: of the
  /// threads, which get a number each.
  AlternatingRollout(std::vector<std::unique_ptr<RolloutWorker>> groups, int splits, Stepping stepping,
                     const std::string& name, SpinBudget spin);

  /// A fragment of each group. `into`: memory of make_fragment() for each. Throws EnvError.
  /// Blocks until all groups have made their steps. Also when it throws, no environment thread writes any more.
  void collect(const Normalizers& frozen, std::span<Fragment> into);

  [[nodiscard]] std::span<const std::unique_ptr<RolloutWorker>> groups() const { return groups_; }
  /// Whether the caller sleeps until the environments of `split` have stepped; and whether their thread sleeps until
  /// the policy has acted for them. For tests.
  [[nodiscard]] bool waits_for(std::size_t split) const { return threads_[split]->callers_asleep() > 0; }
  [[nodiscard]] bool idle(std::size_t split) const { return threads_[split]->sleepers() > 0; }

 private:
  // Groups that step together on one thread. `frozen` is set for the length of collect().
  struct Split {
    std::vector<RolloutWorker*> groups;
    const Normalizers* frozen = nullptr;
    void operator()(int = 0) const;  // steps their environments
  };
  void take_turn(std::size_t split, int t, std::span<Fragment> into);

  const std::vector<std::unique_ptr<RolloutWorker>> groups_;
  std::vector<Split> splits_;
  std::vector<std::unique_ptr<ThreadTeam>> threads_;  // one a split, or none; last: they use the rest
};

}  // namespace tandem::rl
