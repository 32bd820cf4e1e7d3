#include "tandem/base/rethrow.h"

#include <utility>
#include <vector>

#include "tandem/base/error.h"

namespace tandem {
namespace {

// Returns the error with `before` in front of each of its faults.
ConfigError with(const std::string& before, const ConfigError& error) {
  std::vector<std::string> faults = error.faults();
  for (std::string& fault : faults) fault.insert(0, before);
  return ConfigError(std::move(faults));
}

// Throws a new Kind when `error` is one.
template <typename Kind>
void throw_if(const Error& error, const std::string& message) {
  if (dynamic_cast<const Kind*>(&error) != nullptr) throw Kind(message);
}

}  // namespace

void rethrow_with(const std::string& before, const std::function<int(int)>& rank_of) {
  try {
    throw;
  } catch (const ConfigError& error) {
    throw with(before, error);
  } catch (const PeerLost& error) {
    throw PeerLost(rank_of(error.peer()), before + error.what());
  } catch (const Error& error) {
    const std::string message = before + error.what();
    throw_if<InvariantError>(error, message);
    throw_if<HungThread>(error, message);  // before DeadlineExceeded, its base
    throw_if<DeadlineExceeded>(error, message);
    throw_if<GroupAborted>(error, message);
    throw_if<DataError>(error, message);
    throw_if<EnvError>(error, message);
    throw_if<CheckpointError>(error, message);
    throw_if<RunError>(error, message);
    throw;
  }
}

}  // namespace tandem
