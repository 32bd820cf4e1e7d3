// app/launch/launch_report.h: the failures of ranks and what the launcher says about them. The first one is what the
// user wants to see: the others mostly follow from it.
//
// Threads: single-thread.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "tandem/app/launch/rank_process.h"

namespace tandem::app {

struct RankFailure {
  int rank = 0;
  ProcessEnd end;
  std::chrono::milliseconds after{0};  // since the start of its process
  std::vector<std::string> last_lines = {};
};

/// Whether `a` is the likelier cause of two failures that were seen at the same time: a rank that a signal ended,
/// before one that failed by itself, before one that lost a peer (exit code 3).
[[nodiscard]] bool is_likelier_cause(const ProcessEnd& a, const ProcessEnd& b);

/// "2.5 s"
[[nodiscard]] std::string in_seconds(std::chrono::milliseconds span);

/// "rank 1 ended with exit code 3 after 2.1 s"
[[nodiscard]] std::string describe(const RankFailure& failure);

/// The first of `failures` (in their order, none left out) with its last lines, and the others in a line. `failures`
/// must not be empty.
[[nodiscard]] std::string failure_report(const std::vector<RankFailure>& failures);

}  // namespace tandem::app
