#include "tandem/app/train/held_process.h"

#include <cstring>
#include <utility>

#include "tandem/app/exit_code.h"
#include "tandem/base/text.h"

namespace tandem::app {

void HeldProcess::hold(const StopSignals& signals, const std::function<void(const std::string&)>& tell) {
  for (const int number : signals.take_back()) {
    tell(concat("a library of this process took SIG", ::sigabbrev_np(number),
                " for itself, by which a run is asked to stop; the run has taken it back"));
  }
  if (const int missing = open_standard_streams(); missing > 0) {
    tell(concat("a library of this process closed ", missing,
                " of its standard streams; they are /dev/null now, so that no file of the run takes their place"));
  }
  // The workers put it back after each step, on their threads.
  if (KeptRounding::restored() > roundings_ && !std::exchange(has_told_of_rounding_, true)) {
    tell(
        "the environment changes how its thread rounds numbers (fesetround(), or denormal numbers to zero); after each "
        "of its steps that is put back");
  }
}

}  // namespace tandem::app
