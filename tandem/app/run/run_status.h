// app/run/run_status.h: status.json in a run folder: what each rank of the run is at; and the table that `tandem top`
// shows of it (top_text.cc).
//
// Written anew about twice a second while the run goes, whole each time but not synced to the disk: it is of no use
// after a power cut. The last one says how the run ended; one that is old and says "running" is of a rank 0 that is
// gone.
//
// Threads: plain values. Ages of ranks in it are by rank 0's clock.
//
// The file is replaced by a rename, so a reader sees an old status or a new one and never a mixture. Durations are in
// seconds, rates in environment steps a second.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/process.h"

namespace tandem::app {

/// One row of `tandem top`, by rank. It is as rank 0 last saw that rank.
struct RankStatus {
  std::string host;
  std::int64_t process = 0;
  std::string phase;           // start, sample, learn, wait, save
  double phase_s = 0;          // that it has been seen in it without a break; looked at twice a second
  double silent_s = 0;         // since its last sign of life, of which it gives two a second
  std::int64_t updates = 0;    // that it has made
  double env_steps_per_s = 0;  // of its last update; NaN: not known
  double wait_share = 0;       // of its last update, that it waited for others; NaN: not known

  friend bool operator==(const RankStatus&, const RankStatus&) = default;
};

struct RunStatus {
  std::string env = {}, algo = {}, state = {};  // state: running, or name_of(RunEnd)
  double written = 0;                           // seconds since 1970, for people and other programs
  BootTime written_at = {};                     // the same moment, by a clock that nobody sets
  std::int64_t env_steps = 0, total_steps = 0;
  double env_steps_per_s = 0;  // of this process, as in metrics.jsonl
  std::vector<RankStatus> ranks = {};

  friend bool operator==(const RunStatus&, const RunStatus&) = default;
};

/// Makes it a status of now.
void stamp(RunStatus& status);
/// Seconds since it was written to `file`: by the clock of this boot, whatever has become of the time of day; where it
/// is of another machine or boot, by the time of the file.
[[nodiscard]] double age_of(const RunStatus& status, const std::filesystem::path& file);

/// The state of a run that goes on; every other one is of a run that has ended.
inline constexpr const char* kRunning = "running";

/// One line of JSON, without its end; rates that are not known are null.
[[nodiscard]] std::string to_json(const RunStatus& status);

/// Replaces the file. Throws CheckpointError when the disk refuses.
void write_status(const std::filesystem::path& file, const RunStatus& status);
/// The status that to_json() wrote. Safe on any bytes. Throws JsonError for another text.
[[nodiscard]] RunStatus parse_status(std::string_view text);
/// Nothing when there is no such file. Throws CheckpointError when it cannot be read, DataError when it is none.
[[nodiscard]] std::optional<RunStatus> read_status(const std::filesystem::path& file);

/// The state of a run as another process sees it. A status file alone cannot tell a killed rank 0 from a silent one.
/// The lock of the folder does, if it can be read from this machine: a run that is stale and whose folder nobody holds
/// has ended.
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
