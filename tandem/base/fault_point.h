// base/fault_point.h: named places in the code where a test, or a program on behalf of its user, can cause a failure.
//
//   fault_point("checkpoint.after_part");       // in the code: one relaxed load while nothing is armed
//   arm_fault(parse_fault("checkpoint.after_part:3:kill"));   // its third passage from now on kills the process
//
// Threads: all functions may be called from any thread. One fault is armed at a time in a process; it fires once and is
// then disarmed. The library arms nothing by itself and reads no environment variable.
#pragma once
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "tandem/base/error.h"

namespace tandem {

/// The exception that a fault of kind kThrow throws. It is a RunError, so the code under test handles it as a failure
/// of the world.
struct InjectedFault : RunError {
  using RunError::RunError;
};

enum class FaultKind {
  kKill,     // SIGKILL to this process: nothing is flushed, no destructor runs
  kThrow,    // InjectedFault
  kNoSpace,  // the system call at a fault_errno() place fails with ENOSPC
  kHang,     // the thread stays there until disarm_fault()
};

/// A failure that is to happen at one place. A place that no code reaches never fires, without an error.
struct Fault {
  std::string point;
  int passage = 1;  // fires the passage-th time that the point is reached after arming
  FaultKind kind = FaultKind::kThrow;
};

/// Reads "POINT:PASSAGE:kill", ":throw", ":enospc" or ":hang". Throws ConfigError for any other text.
[[nodiscard]] Fault parse_fault(std::string_view text);

/// Makes `fault` the armed one, in place of the one before.
void arm_fault(const Fault& fault);
/// Disarms the fault, and lets threads go that hang at one.
void disarm_fault();
/// The number of threads that hang at a fault now.
[[nodiscard]] std::size_t hanging_at_faults();

/// The flag is in the header, so that a passage without an armed fault calls no function.
namespace fault_detail {
inline std::atomic<bool> armed{false};
/// A place before a system call can pretend an errno, another place cannot.
enum class Place { kCode, kSystemCall };
/// Counts a passage and fires the fault that is due; returns the errno to pretend, or 0.
int pass(std::string_view point, Place place);
}  // namespace fault_detail

/// A place where any code can fail: throws or kills when a fault is armed here. `point` is a literal: "what.when".
inline void fault_point(std::string_view point) {
  if (fault_detail::armed.load(std::memory_order_relaxed)) (void)fault_detail::pass(point, fault_detail::Place::kCode);
}

/// A place just before a system call. Returns zero, or the errno of the failure that the caller has to pretend.
[[nodiscard]] inline int fault_errno(std::string_view point) {
  return fault_detail::armed.load(std::memory_order_relaxed)
             ? fault_detail::pass(point, fault_detail::Place::kSystemCall)
             : 0;
}

}  // namespace tandem
