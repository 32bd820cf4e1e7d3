// metrics/chrome_trace.h: a trace in the format that Chrome's trace viewer, Perfetto and speedscope read.
//
// Threads: all.
// Source: "Trace Event Format", complete events ("X") and thread names ("M").
#pragma once
#include <span>
#include <string>

#include "tandem/concurrency/trace.h"

namespace tandem {

/// Returns one JSON object with the kept spans of each thread, in the order of their ends. Times count from `begin`, in
/// microseconds.
[[nodiscard]] std::string to_chrome_trace(std::span<const ThreadTrace> threads, Clock::time_point begin);

}  // namespace tandem
