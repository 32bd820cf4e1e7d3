#include "tandem/comm/rethrow.h"

#include "tandem/base/error.h"

namespace tandem::comm {

void rethrow_with(const std::string& before, const std::function<int(int)>& rank_of) {
  try {
    throw;
  } catch (const PeerLost& error) {
    throw PeerLost(rank_of(error.peer()), before + error.what());
  } catch (const DeadlineExceeded& error) {
    throw DeadlineExceeded(before + error.what());
  } catch (const GroupAborted& error) {
    throw GroupAborted(before + error.what());
  } catch (const RunError& error) {
    throw RunError(before + error.what());
  }
}

}  // namespace tandem::comm
