// metrics/jsonl_sink.h: writes records as lines of JSON (metrics.jsonl), and cuts such a file back when a run is
// resumed.
//
// A run that goes on from a checkpoint repeats the updates after that checkpoint. So the lines of those updates are
// removed first, and the file then looks as if the run had never been interrupted.
//
// Threads: single-thread. Blocks on the disk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/metrics/sink.h"

namespace tandem {

/// Returns the record as an object of JSON, without the end of the line. Doubles that are not finite are written as
/// null.
[[nodiscard]] std::string to_json(const Record& record);

/// Appends one line for each record. A line that a crash tore off at the end of the file is removed first.
class JsonlSink : public MetricsSink {
 public:
  explicit JsonlSink(const std::filesystem::path& path);
  void write(const Record& record) override;

 private:
  AppendFile file_;
};

/// Keeps the lines at the start of the file whose field `counter` is at most `last`. Removes everything from the first
/// line beyond `last` on, a torn end included, and syncs. A line without that field shares the fate of the line before.
/// Returns the number of lines that are left, which is 0 for a file that does not exist.
/// Throws CheckpointError, and changes nothing, when the file cannot be written or a line before the cut is no JSON
/// object.
std::size_t truncate_jsonl(const std::filesystem::path& path, std::string_view counter, std::int64_t last);

}  // namespace tandem
