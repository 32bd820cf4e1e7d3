#include "tandem/base/error.h"

#include <execinfo.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "tandem/base/check.h"

namespace tandem {
namespace {

// Returns a single fault as it is, and several as a list with one line each.
std::string list(const std::vector<std::string>& faults) {
  if (faults.size() == 1) return faults.front();
  std::string text = concat(faults.size(), " faults in the configuration:");
  for (const std::string& fault : faults) text += concat("\n  - ", fault);
  return text;
}

// Returns the error with `before` in front of each of its faults.
ConfigError with(const std::string& before, const ConfigError& error) {
  std::vector<std::string> faults = error.faults();
  for (std::string& fault : faults) fault.insert(0, before);
  return ConfigError(std::move(faults));
}

template <typename Kind>
void throw_if(const Error& error, const std::string& message) {
  if (dynamic_cast<const Kind*>(&error) != nullptr) throw Kind(message);
}

// Returns the callers of fail_check(), one a line, with the names that the dynamic linker knows.
std::string call_stack() {
  std::array<void*, 32> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  char** names = backtrace_symbols(frames.data(), count);
  std::string text;
  // Frames 0 and 1 are this function and fail_check().
  for (int i = 2; names != nullptr && i < count; ++i) text += concat("\n    ", names[i]);
  std::free(names);
  return text;
}

}  // namespace

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InvariantError(concat("defect in tandem: ", file, ":", line, ": '", condition, "' does not hold",
                              message.empty() ? "" : ": ", message, call_stack()));
}

void fail_expectation(const std::string& message) { throw ConfigError(message); }

ConfigError::ConfigError(std::vector<std::string> faults) : Error(list(faults)), faults_(std::move(faults)) {}

// A new class of RunError that has to keep its kind needs a line here.
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
