#include "tandem/shm/cause.h"

#include "tandem/base/error.h"

namespace tandem::shm {

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

}  // namespace tandem::shm
