#include "tandem/base/fault_point.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// The armed fault of the process. The flag fault_detail::armed repeats whether there is one, so that a passage without
// an armed fault costs one relaxed load and no lock.
struct Armed {
  Mutex mutex;
  CondVar let_go;
  std::optional<Fault> fault TANDEM_GUARDED_BY(mutex);
  std::uint64_t disarmed TANDEM_GUARDED_BY(mutex) = 0;  // counts calls of disarm_fault(), which end the hangs before
};

// Made at its first use, so that a fault may be armed before main() begins.
Armed& state() {
  static Armed armed;
  return armed;
}

// Counts a passage. Returns the fault, disarmed, when this passage is the one at which it fires.
std::optional<Fault> count_passage(std::string_view point) {
  MutexLock lock(state().mutex);
  std::optional<Fault>& fault = state().fault;
  if (!fault || fault->point != point || --fault->passage > 0) return std::nullopt;
  fault_detail::armed.store(false, std::memory_order_relaxed);
  return std::exchange(fault, std::nullopt);
}

void hang() {
  Armed& its = state();
  MutexLock lock(its.mutex);
  its.let_go.wait(its.mutex, Deadline::infinite(),
                  [&its, before = its.disarmed]() TANDEM_REQUIRES(its.mutex) { return its.disarmed != before; });
}

}  // namespace

// Cuts at the last two colons, since a point may hold colons itself.
Fault parse_fault(std::string_view text) {
  const ConfigError malformed(
      concat("the fault '", text, "' is not POINT:PASSAGE:KIND with a passage of at least 1 and ",
             "one of the kinds kill, throw, enospc, hang; for example checkpoint.after_part:1:kill"));
  // A text with fewer than two colons, or with no point before them, is malformed.
  const std::size_t last = text.rfind(':');
  const std::size_t first = last == std::string_view::npos || last == 0 ? last : text.rfind(':', last - 1);
  if (last == std::string_view::npos || first == std::string_view::npos || first == 0) throw malformed;
  Fault fault{.point = std::string(text.substr(0, first))};
  const std::string_view passage = text.substr(first + 1, last - first - 1), kind = text.substr(last + 1);
  fault.passage = parse_number<int>(passage).value_or(0);
  if (fault.passage < 1) throw malformed;
  using Named = std::pair<std::string_view, FaultKind>;
  for (const auto& [name, its] : {Named{"kill", FaultKind::kKill}, Named{"throw", FaultKind::kThrow},
                                  Named{"enospc", FaultKind::kNoSpace}, Named{"hang", FaultKind::kHang}}) {
    if (name != kind) continue;
    fault.kind = its;
    return fault;
  }
  throw malformed;
}

void arm_fault(const Fault& fault) {
  MutexLock lock(state().mutex);
  state().fault = fault;
  fault_detail::armed.store(true, std::memory_order_relaxed);
}

void disarm_fault() {
  MutexLock lock(state().mutex);
  state().fault.reset();
  fault_detail::armed.store(false, std::memory_order_relaxed);
  // A hanging thread compares this count with the one at its start, so arming a new fault does not let it go.
  ++state().disarmed;
  state().let_go.notify_all();
}

std::size_t hanging_at_faults() { return state().let_go.waiters(); }

namespace fault_detail {

// Fires the fault outside of the lock: it may hang or throw.
int pass(std::string_view point, Place place) {
  const std::optional<Fault> fault = count_passage(point);
  if (!fault) return 0;
  switch (fault->kind) {
    case FaultKind::kKill:
      // SIGKILL cannot be caught, so the process ends as it would under the system's memory killer.
      std::raise(SIGKILL);
      return 0;
    case FaultKind::kThrow:
      throw InjectedFault(concat("a fault was injected at ", point));
    case FaultKind::kNoSpace:
      if (place == Place::kSystemCall) return ENOSPC;
      throw InjectedFault(
          concat("an errno was injected at ", point, ", which is not a system call: use throw or kill"));
    case FaultKind::kHang:
      hang();
      return 0;
  }
  return 0;
}

}  // namespace fault_detail

}  // namespace tandem
