// rl/env/python/python_worker.h: the program that a Python interpreter runs as the worker of Python environments.
//
// It is the files of rl/env/python/worker, compiled into this library and handed to the interpreter on its standard
// input, so that no path is looked up. Threads: all.
#pragma once
#include <string_view>

namespace tandem::rl {

/// Defined in a source that the build makes from the files.
[[nodiscard]] std::string_view python_worker_text();

}  // namespace tandem::rl
