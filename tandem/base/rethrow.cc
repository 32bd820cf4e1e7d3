#include "tandem/base/rethrow.h"

#include <utility>
#include <vector>

#include "tandem/base/error.h"

namespace tandem {
namespace {

ConfigError with(const std::string& before, const ConfigError& error) {
  std::vector<std::string> faults = error.faults();
  for (std::string& fault : faults) fault.insert(0, before);
  return ConfigError(std::move(faults));
}

}  // namespace

void rethrow_with(const std::string& before, const std::function<int(int)>& rank_of) {
  try {
    throw;
  } catch (const ConfigError& error) {
    throw with(before, error);
  } catch (const InvariantError& error) {
    throw InvariantError(before + error.what());
  } catch (const PeerLost& error) {
    throw PeerLost(rank_of(error.peer()), before + error.what());
  } catch (const HungThread& error) {
    throw HungThread(before + error.what());
  } catch (const DeadlineExceeded& error) {
    throw DeadlineExceeded(before + error.what());
  } catch (const GroupAborted& error) {
    throw GroupAborted(before + error.what());
  } catch (const DataError& error) {
    throw DataError(before + error.what());
  } catch (const EnvError& error) {
    throw EnvError(before + error.what());
  } catch (const CheckpointError& error) {
    throw CheckpointError(before + error.what());
  } catch (const RunError& error) {
    throw RunError(before + error.what());
  }
}

}  // namespace tandem
