// metrics/chrome_trace.h: a trace as Chrome's trace viewer, Perfetto and speedscope read it.
//
// Source: "Trace Event Format", complete events ("X") and thread names ("M").
#pragma once
#include <span>
#include <string>

#include "tandem/concurrency/trace.h"

namespace tandem {

/// One JSON object; times count from `begin`, in microseconds. The latest spans of each thread, in the order of their
/// end.
[[nodiscard]] std::string to_chrome_trace(std::span<const ThreadTrace> threads, Clock::time_point begin);

}  // namespace tandem
