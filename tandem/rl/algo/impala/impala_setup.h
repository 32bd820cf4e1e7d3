// rl/algo/impala/impala_setup.h: everything that a run of IMPALA or APPO is made of. ImpalaRun checks it.
#pragma once
#include <optional>

#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/run_setup.h"

namespace tandem::rl {

/// The devices are the learner's.
struct ImpalaSetup : RunSetup {
  ImpalaOptions impala;
  std::optional<AppoOptions> appo;  // none: IMPALA
};

}  // namespace tandem::rl
