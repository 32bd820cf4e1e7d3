// python/src/option_list.h: the program's options as plain values, from which the package's signatures are generated.
#pragma once
#include <nanobind/nanobind.h>

namespace tandem::python {

void bind_option_list(nanobind::module_& module);

}  // namespace tandem::python
