// base/fault_point.h: named places in the code where a test, or a program on its user's behalf, can make things fail.
//
//   fault_point("checkpoint.after_part");       // in the code: one relaxed load while nothing is armed
//   arm_fault(parse_fault("checkpoint.after_part:3:kill"));   // its third passage from now on kills the process
//
// Threads: all may be called from any thread. One fault is armed at a time; it fires once and is then disarmed.
// The library arms nothing by itself and reads no environment.
#pragma once
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "tandem/base/error.h"

namespace tandem {

/// What a fault of kind kThrow throws.
class InjectedFault : public RunError {
 public:
  using RunError::RunError;
};

enum class FaultKind {
  kKill,     // SIGKILL to this process: nothing is flushed, no destructor runs
  kThrow,    // InjectedFault
  kNoSpace,  // the system call at a fault_errno() place fails with ENOSPC
  kHang,     // the thread stays there until disarm_fault()
};

struct Fault {
  std::string point;
  int passage = 1;  // fires the passage-th time that the point is reached after arming
  FaultKind kind = FaultKind::kThrow;
};

/// "POINT:PASSAGE:kill", ":throw", ":enospc" or ":hang". Throws ConfigError.
[[nodiscard]] Fault parse_fault(std::string_view text);

void arm_fault(const Fault& fault);
/// Also lets go what hangs.
void disarm_fault();
/// Threads that hang at a fault now.
[[nodiscard]] std::size_t hanging_at_faults();

namespace fault_detail {
inline std::atomic<bool> armed{false};
int pass(std::string_view point);
[[noreturn]] void refuse_errno(std::string_view point);
}  // namespace fault_detail

/// A place where any code can fail. `point` is a literal: "what.when".
inline void fault_point(std::string_view point) {
  if (fault_detail::armed.load(std::memory_order_relaxed) && fault_detail::pass(point) != 0) {
    fault_detail::refuse_errno(point);
  }
}

/// A place just before a system call: zero, or the errno with which to act as if the call had failed.
[[nodiscard]] inline int fault_errno(std::string_view point) {
  return fault_detail::armed.load(std::memory_order_relaxed) ? fault_detail::pass(point) : 0;
}

}  // namespace tandem
