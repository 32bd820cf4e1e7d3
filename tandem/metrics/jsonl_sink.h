// metrics/jsonl_sink.h: records as lines of JSON (metrics.jsonl), and cutting such a file back when a run is resumed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/metrics/append_file.h"
#include "tandem/metrics/sink.h"

namespace tandem {

/// The record as an object of JSON, without a line's end. Doubles that are not finite are written as null.
[[nodiscard]] std::string to_json(const Record& record);

/// Appends one line a record. A line that a crash tore off at the end of the file is removed first.
class JsonlSink : public MetricsSink {
 public:
  explicit JsonlSink(const std::filesystem::path& path);
  void write(const Record& record) override;

 private:
  AppendFile file_;
};

/// Keeps the lines at the start of the file whose field `counter` is at most `last`, removes everything from the first
/// line beyond it on, a torn end included, and syncs. Lines without that field stay with the line before them.
/// Returns the lines that are left. A file that does not exist has none.
/// Throws CheckpointError, and changes nothing, when the file cannot be written or a line before the cut is no JSON
/// object.
std::size_t truncate_jsonl(const std::filesystem::path& path, std::string_view counter, std::int64_t last);

}  // namespace tandem
