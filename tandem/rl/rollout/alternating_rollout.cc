#include "tandem/rl/rollout/alternating_rollout.h"

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"
#include "tandem/device/one_core.h"

namespace tandem::rl {

void AlternatingRollout::Split::operator()(int /*thread*/) const {
  // Threads of splits must not start LibTorch's thread pool: the cores belong to the workers.
  device::use_one_core();
  for (RolloutWorker* group : groups) group->advance(*frozen);
}

AlternatingRollout::AlternatingRollout(std::vector<std::unique_ptr<RolloutWorker>> groups, int splits,
                                       Stepping stepping, const std::string& name, SpinBudget spin)
    : groups_(std::move(groups)), splits_(static_cast<std::size_t>(splits)) {
  TANDEM_CHECK(!groups_.empty() && splits > 0 && groups_.size() % splits_.size() == 0, groups_.size(),
               " env groups in ", splits, " splits");
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    TANDEM_CHECK(groups_[i]->steps() == groups_.front()->steps(), groups_[i]->steps(), " steps in one group and ",
                 groups_.front()->steps(), " in another");
    // Neighbouring groups go to different splits, so every shard has a part in each.
    splits_[i % splits_.size()].groups.push_back(groups_[i].get());
  }
  // With one split nothing could be done while its environments step.
  if (stepping == Stepping::kInTurn || splits == 1) return;
  for (std::size_t i = 0; i < splits_.size(); ++i)
    threads_.push_back(std::make_unique<ThreadTeam>(concat(name, " ", i), spin));
}

// Whatever ends a rollout, the fragments are nobody's afterwards. Of several failures the first in order is told.
void AlternatingRollout::collect(const Normalizers& frozen, std::span<Fragment> into) {
  const Span span("rollout");
  TANDEM_CHECK(into.size() == groups_.size(), into.size(), " fragments for ", groups_.size(), " env groups");
  for (Split& split : splits_) split.frozen = &frozen;
  try {
    for (int t = 0; t <= groups_.front()->steps(); ++t) {
      for (std::size_t i = 0; i < splits_.size(); ++i) take_turn(i, t, into);
    }
  } catch (...) {
    for (const auto& thread : threads_) {
      try {
        thread->wait();
      } catch (...) {  // NOLINT(bugprone-empty-catch): another failure is on its way
      }
    }
    throw;
  }
}

// In round t, waits until the split's environments have made step t - 1, chooses the actions of step t, and lets them
// go. While they step, the policy acts for the next split. Without threads the step is made here and now.
void AlternatingRollout::take_turn(std::size_t split, int t, std::span<Fragment> into) {
  const bool last = t == groups_.front()->steps();
  if (t > 0 && !threads_.empty()) {
    const Span waiting("wait for environments");
    threads_[split]->wait();
  }
  for (std::size_t group = split; group < groups_.size(); group += splits_.size()) {
    if (t == 0) groups_[group]->begin(*splits_[split].frozen, into[group]);
    if (last) {
      (void)groups_[group]->end();
    } else {
      groups_[group]->choose();
    }
  }
  if (last) return;
  threads_.empty() ? splits_[split]() : threads_[split]->start(splits_[split]);
}

}  // namespace tandem::rl
