// python/src/errors.h: Tandem's exceptions as those of the Python package.
//
// ConfigError, RunError and InvariantError become classes of the same names in tandem/_errors.py, which have the same
// texts; what an embedding program would report as a failure or a defect (app/exit_code.h) becomes one of the two.
#pragma once

namespace tandem::python {

/// From now on whatever leaves a bound function is translated. Called once, when the module is loaded.
void translate_errors();

}  // namespace tandem::python
