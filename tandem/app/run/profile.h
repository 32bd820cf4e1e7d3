// app/run/profile.h: what a run with --profile leaves behind: trace.json for a trace viewer, and profile.txt, a table
// of where the time of each thread went. A run that fails leaves both, too.
//
// Threads: the main one. The trace holds what all threads of this process did while the object lived.
//
// The table is in seconds; "own" leaves out the spans that lie within a span, so the rows of a thread, the last one
// included, add up to the elapsed time. A trace holds only the latest spans of each thread (Trace::kSpansOfAThread),
// while the table counts all of them.
#pragma once
#include <span>
#include <string>

#include "tandem/app/run/run_folder.h"
#include "tandem/concurrency/trace.h"

namespace tandem::app {

/// A line a thread and name: its own time and the share of `elapsed` that is, time with what lies within, how often,
/// mean and longest. Then what no span covers.
[[nodiscard]] std::string profile_table(std::span<const ThreadTrace> threads, Clock::duration elapsed);

/// Records from its construction on. The paths are copied; the run folder has to exist when finish() is called.
class Profile {
 public:
  explicit Profile(const RunPaths& paths) : paths_(paths) {}
  /// Writes both files; returns the table and a line that says where they are. Throws CheckpointError when they cannot
  /// be written.
  [[nodiscard]] std::string finish() const;

 private:
  const RunPaths paths_;
  const Trace trace_;
};

}  // namespace tandem::app
