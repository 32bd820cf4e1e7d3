// python/src/policies.h: trained policies that act on arrays of Python's.
#pragma once
#include <nanobind/nanobind.h>

namespace tandem::python {

void bind_policies(nanobind::module_& module);

}  // namespace tandem::python
