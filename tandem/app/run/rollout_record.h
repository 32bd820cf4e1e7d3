// app/run/rollout_record.h: rollouts.jsonl: how many steps each env group made in each update, where rollouts may end
// early or groups rest (0). A run that follows it has the same numbers.
//
//   {"updates":1,"steps":[100,100,100,61]}
//
// Threads: single-thread.
//
// Ownership: rank 0 writes the file, one line an update, and appends after each update. A record with a gap cannot be
// replayed, which kept() lets the caller find out.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tandem/metrics/sink.h"

namespace tandem::app {

class RolloutRecord {
 public:
  /// Goes on with the file behind the line of update `updates`; what comes after that is cut off. It is whole when
  /// there are as many lines then. Throws CheckpointError.
  RolloutRecord(const std::filesystem::path& path, std::int64_t updates);
  /// `updates`: made so far, this one counted. `steps`: by group. Writes one line and throws CheckpointError when the
  /// disk refuses.
  void append(std::int64_t updates, std::span<const int> steps);
  /// Lines that were there.
  [[nodiscard]] std::int64_t kept() const { return kept_; }

 private:
  std::int64_t kept_;
  AppendFile file_;
};

/// The steps of each group, by update. `text`: of such a file; `name` for messages. Throws ConfigError when it is none,
/// has a gap, or its groups are not `groups`, made more than `most` steps or none of them any.
[[nodiscard]] std::vector<std::vector<int>> read_rollouts(const std::string& text, const std::string& name, int groups,
                                                          int most);
/// The file of `path`, or that of the run folder `path`.
[[nodiscard]] std::filesystem::path rollouts_of(const std::filesystem::path& path);

}  // namespace tandem::app
