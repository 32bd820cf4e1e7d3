#include "tandem/shm/control_block.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::shm {

std::string describe(const Posting& posting) {
  constexpr std::array kNames{"all_reduce", "broadcast", "all_gather", "all_gather of equal sizes", "barrier"};
  const std::string name = kNames[static_cast<std::size_t>(posting.operation)];
  if (posting.operation == Operation::kBarrier) return name;
  const std::string what = concat(name, posting.operation == Operation::kAllGatherEqual ? ", " : " of ", posting.count,
                                  " x ", posting.type.data());
  return posting.operation == Operation::kBroadcast ? concat(what, " from rank ", posting.root) : what;
}

// The root and the type count too: they may differ when the ranks have taken different branches.
bool agree(const Posting& a, const Posting& b) {
  if (a.operation != b.operation || a.root != b.root || a.type != b.type) return false;
  return a.count == b.count || a.operation == Operation::kAllGather;
}

void throw_closed(Cause cause, ClosedBy by, int lost, const std::string& message) {
  switch (cause) {
    case Cause::kLost:
    case Cause::kLeft:
      throw PeerLost(lost, message);
    case Cause::kMismatch:
      throw RunError(message);
    case Cause::kDeadline:
      if (by == ClosedBy::kMe) throw DeadlineExceeded(message);
      [[fallthrough]];
    case Cause::kAborted:
    case Cause::kStopped:
      break;
  }
  throw GroupAborted(message);
}

// A second rank that closes the group closes the counters again: the first one may have been stopped or killed before
// it closed them.
void ControlBlock::close(int rank) {
  std::int32_t open = kOpen;
  // Only the first rank's name enters; it is set before the counters are closed, so a waiter that wakes finds the
  // reason.
  closed_by.compare_exchange_strong(open, rank);
  for (int each = 0; each < size; ++each) {
    this->rank(each).posted.close();
    this->rank(each).finished.close();
  }
  all_posted.close();
  all_finished.close();
}

}  // namespace tandem::shm
