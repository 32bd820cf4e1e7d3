// bench/comm/busy_process.h: the company that a run has on a machine that others use, too.
#pragma once
#include <sys/types.h>

namespace tandem::bench {

/// A process of nice 10 that computes for as long as this lives: it takes one core, or what others leave of it. It dies
/// with the process that made it. Single-thread: nothing else may run in this process. Throws RunError when there is no
/// process to be had.
class BusyProcess {
 public:
  BusyProcess();
  ~BusyProcess();
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t process_;
};

}  // namespace tandem::bench
