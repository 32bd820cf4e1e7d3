// A fault that is armed as long as the object lives, however its test ends. One at a time, as faults are.
#pragma once
#include "tandem/base/fault_point.h"

namespace tandem {

class ArmedFault {
 public:
  explicit ArmedFault(const Fault& fault) { arm_fault(fault); }
  /// Also lets go what hangs.
  ~ArmedFault() { disarm_fault(); }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;
};

}  // namespace tandem
