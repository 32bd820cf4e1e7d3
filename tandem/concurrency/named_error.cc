#include "tandem/concurrency/named_error.h"

#include "tandem/base/error.h"

namespace tandem {
namespace {

ConfigError named(const std::string& before, const ConfigError& error) {
  std::vector<std::string> faults = error.faults();
  for (std::string& fault : faults) fault.insert(0, before);
  return ConfigError(std::move(faults));
}

}  // namespace

void rethrow_named(const std::string& name) {
  const std::string before = name + ": ";
  try {
    throw;
  } catch (const ConfigError& error) {
    throw named(before, error);
  } catch (const InvariantError& error) {
    throw InvariantError(before + error.what());
  } catch (const PeerLost& error) {
    throw PeerLost(error.peer(), before + error.what());
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
