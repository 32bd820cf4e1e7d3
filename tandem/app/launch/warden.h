// app/launch/warden.h: a process that outlives the launcher by an instant, to kill what the launcher left behind.
//
// A rank dies with the launcher by itself (PR_SET_PDEATHSIG), but not the processes that it started. The warden knows
// the process groups of all ranks. It reads from a pipe that only the launcher writes to, and when that ends, however
// the launcher was ended, it kills them all.
//
// Threads: single-thread.
//
// Ownership: the warden's process keeps no descriptor of the launcher open but the reading end of the pipe, so it never
// keeps a file or a terminal of the launcher busy.
#pragma once
#include <sys/types.h>

#include "tandem/base/descriptor.h"

namespace tandem::app {

class Warden {
 public:
  /// Starts the process, for `slots` groups. Throws RunError when the system has none to give.
  explicit Warden(int slots);
  /// Ends it; it then kills the groups that it still knows. Waits until it is gone, which nothing delays.
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  /// From now on `group` is what the slot holds; zero is nothing. Safe in a forked child: it is one system call.
  void set(int slot, pid_t group) const;

 private:
  Descriptor pipe_;
  pid_t process_ = -1;
};

}  // namespace tandem::app
