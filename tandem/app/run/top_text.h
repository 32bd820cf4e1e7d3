// app/run/top_text.h: the table that `tandem top` shows of a run, made of what its folder says at a moment.
//
// Threads: plain values.
//
// A status file alone cannot tell a killed rank 0 from a silent one. The lock of the folder does, if it can be read
// from this machine: a run that is stale and whose folder nobody holds has ended.
#pragma once
#include <optional>
#include <string>

#include "tandem/app/run/run_status.h"

namespace tandem::app {

/// The state of a run as another process sees it.
struct RunSeen {
  std::string folder;
  std::optional<RunStatus> status = {};
  double age_s = 0;        // of the status
  bool is_in_use = false;  // a process holds the folder; looked at where the status does not tell
};

enum class Going { kOn, kEnded };

/// Whether more is to come. A run without a status goes on as long as a process holds its folder: it is starting then.
[[nodiscard]] Going going(const RunSeen& run);

/// From how long without a sign of life on a rank is called silent. It is in seconds, six times the interval at which
/// ranks give signs of life.
inline constexpr double kSilentAfter = 3;

/// A line about the run, one about what is wrong, if anything is, and a row for each rank; lines are ended by a line
/// feed. At most `most_ranks` rows.
[[nodiscard]] std::string top_text(const RunSeen& run, int most_ranks);

}  // namespace tandem::app
