// app/launch/launch_report.h: the failures of ranks and what the launcher says about them. The first one is what the
// user wants to see: the others mostly follow from it.
//
// Threads: single-thread.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/launch/rank_process.h"
#include "tandem/base/text.h"

namespace tandem::app {

/// A process of a rank that ended with a failure, and the last that it printed.
struct RankFailure {
  int rank = 0;
  ProcessEnd end;
  std::chrono::milliseconds after{0};  // since the start of its process
  std::vector<std::string> last_lines = {};
};

/// What a rank told the others before it failed.
struct ToldFailure {
  int rank = 0;
  std::string why;
};

/// Moves the failure of `rank` to the front: the others followed from it, though their processes may have ended first.
inline void put_first(int rank, std::vector<RankFailure>& failures) {
  std::stable_partition(failures.begin(), failures.end(),
                        [rank](const RankFailure& failure) { return failure.rank == rank; });
}

/// Whether `a` is the likelier cause of two failures that were seen at the same time: a rank that a signal ended,
/// before one that failed by itself, before one that lost a peer (exit code 3). Ranks that lose a peer end soon after
/// it, often within one turn of poll(); the kind of their end then tells cause from effect.
[[nodiscard]] inline bool is_likelier_cause(const ProcessEnd& a, const ProcessEnd& b) {
  constexpr int kPeerLost = 3;  // the exit code of a RunError, such as a lost peer
  const auto distance = [](const ProcessEnd& end) { return end.signal != 0 ? 0 : end.code == kPeerLost ? 2 : 1; };
  return distance(a) < distance(b);
}

/// "2.5 s"
[[nodiscard]] inline std::string in_seconds(std::chrono::milliseconds span) {
  return fixed(static_cast<double>(span.count()) / 1000, 1) + " s";
}

/// "rank 1 ended with exit code 3 after 2.1 s"
[[nodiscard]] inline std::string describe(const RankFailure& failure) {
  return concat("rank ", failure.rank, failure.end.signal == 0 ? " ended with " : " was ended by ",
                describe(failure.end), " after ", in_seconds(failure.after));
}

/// The first of `failures` (in their order, none left out) with its last lines, and the others in a line, so that a
/// launch of hundreds of ranks does not bury the first under their names. `failures` must not be empty. `told`: what
/// the first rank to fail told the others, which need not have ended by a failure, if it was asked to end meanwhile.
[[nodiscard]] inline std::string failure_report(const std::vector<RankFailure>& failures,
                                                const std::optional<ToldFailure>& told = std::nullopt) {
  constexpr std::size_t kOthersNamed = 8;
  const RankFailure& first = failures.front();
  std::string text = concat("tandem: the run failed: ", failures.size() == 1 ? "" : "first, ", describe(first), "\n");
  if (told) text += concat("  the first to fail was rank ", told->rank, ", which ", told->why, "\n");
  text += first.last_lines.empty() ? "  it printed nothing\n" : "  its last lines:\n";
  for (const std::string& line : first.last_lines) text += concat("    ", line, "\n");
  for (std::size_t i = 1; i < failures.size(); ++i) {
    if (i > kOthersNamed) return concat(text, ", and ", failures.size() - i, " more\n");
    text += concat(i == 1 ? "  then: " : ", ", "rank ", failures[i].rank, " (", describe(failures[i].end), ")");
  }
  return failures.size() == 1 ? text : text + "\n";
}

}  // namespace tandem::app
