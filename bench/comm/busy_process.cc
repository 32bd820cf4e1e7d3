#include "bench/comm/busy_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tandem/base/error.h"

namespace tandem::bench {

BusyProcess::BusyProcess() : process_(::fork()) {
  if (process_ < 0) throw RunError("no process to keep a core busy");
  if (process_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::nice(10) == -1) ::_exit(1);
  for (volatile bool goes_on = true; goes_on;) continue;
}

BusyProcess::~BusyProcess() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace tandem::bench
