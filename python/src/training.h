// python/src/training.h: tandem.train() and tandem.resume() as they call the program's commands.
//
// Threads: one training of a process at a time. The interpreter's lock is given back while the run computes, and taken
// for each callback. Signals are the run's meanwhile, as in the program; those of Python hold again during callbacks,
// and when the call returns.
#pragma once
#include <nanobind/nanobind.h>

namespace tandem::python {

void bind_training(nanobind::module_& module);

}  // namespace tandem::python
