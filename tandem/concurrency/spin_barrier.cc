#include "tandem/concurrency/spin_barrier.h"

#include <chrono>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem {

SpinBarrier::SpinBarrier(std::string name, int members, SpinBudget spin)
    : name_(std::move(name)), spin_(spin), arrivals_(static_cast<std::size_t>(members)) {
  TANDEM_CHECK(members > 0, "the barrier '", name_, "' of ", members, " members");
}

void SpinBarrier::arrive_and_wait(int member, const Deadline& deadline) {
  TANDEM_CHECK(member >= 0 && member < members(), "member ", member, " at the barrier '", name_, "' of ", members());
  const std::uint32_t round = round_.load() & ~kAborted;
  if (aborted())
    throw GroupAborted(concat("member ", member, " came to the barrier '", name_, "' of a group that was ",
                              "aborted because another member failed"));
  arrivals_[static_cast<std::size_t>(member)].round.store(round + kOneRound, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < members()) {
    wait_for_others(member, round, deadline);
    return;
  }
  // The last one opens the next round. The count is reset first: whoever sees the new round may arrive in it at once.
  arrived_.store(0, std::memory_order_relaxed);
  round_.fetch_add(kOneRound);
  round_.wake_all();
}

void SpinBarrier::wait_for_others(int member, std::uint32_t round, const Deadline& deadline) {
  const Clock::time_point start = deadline.is_infinite() ? Clock::time_point() : Clock::now();
  const std::uint32_t now = round_.wait_while(round, spin_, deadline);
  if ((now & ~kAborted) != round) return;
  if ((now & kAborted) != 0) {
    throw GroupAborted(concat("member ", member, " waited at the barrier '", name_,
                              "' of a group that was aborted because another member failed"));
  }
  const std::string absent = missing(round);
  abort();
  // The last member may have come between the deadline and the abort; the others then go on, and so does this one.
  if ((round_.load() & ~kAborted) != round) return;
  throw DeadlineExceeded(concat("member ", member, " waited ", seconds_since(start), " s at the barrier '", name_,
                                "' of ", members(), " members for ", absent,
                                ": it is stuck, or far slower than the others, or took another path"));
}

std::string SpinBarrier::missing(std::uint32_t round) const {
  std::string text;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    if (arrivals_[i].round.load(std::memory_order_relaxed) == round + kOneRound) continue;
    text += concat(text.empty() ? "member " : ", member ", i);
  }
  return text;
}

void SpinBarrier::abort() noexcept {
  round_.fetch_or(kAborted);
  round_.wake_all();
}

}  // namespace tandem
