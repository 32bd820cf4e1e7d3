#include "tandem/metrics/jsonl_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/input_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// Cuts the file to `size` bytes, also on the disk.
void cut(const std::filesystem::path& path, std::uint64_t size) {
  const Descriptor file = open_regular("open", path, O_WRONLY);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0 || ::fsync(file.get()) != 0)
    throw_file_error("cut back", path, errno);
}

// Removes everything behind the last line end. Returns `path`, so that a constructor can call it before opening the
// file.
const std::filesystem::path& without_torn_line(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return path;
  const std::uint64_t size = std::filesystem::file_size(path), whole = bytes_of_lines(path);
  if (whole != size) cut(path, whole);
  return path;
}

// The part of a line that decides about its fate: whether it is an object, and its counter if it has one.
struct Line {
  bool is_object = false;
  std::optional<std::int64_t> count;
};

// Nothing at the end of the file.
std::optional<Line> next_line(LineReader& lines, std::string_view counter) {
  try {
    const std::optional<std::string_view> text = lines.next();
    if (!text) return std::nullopt;
    const JsonValue value = read_json(*text);
    const JsonValue* count = value.find(counter);
    return Line{true, count == nullptr ? std::nullopt : std::optional(count->as_int64())};
  } catch (const DataError&) {  // no JSON, or too long a line
    return Line{};
  }
}

}  // namespace

std::string to_json(const Record& record) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : record.fields()) {
    json.key(name);
    std::visit([&](const auto& content) { json.value(content); }, value);
  }
  json.end_object();
  return json.text();
}

JsonlSink::JsonlSink(const std::filesystem::path& path) : file_(without_torn_line(path)) {}

void JsonlSink::write(const Record& record) { file_.append(to_json(record) + "\n"); }

// One pass over the lines finds the first line to be removed: the first one beyond `last`, or the first damaged one.
// The pass goes on to the end, since a damaged line in front of a line that counts means that the file is not ours to
// cut.
std::size_t truncate_jsonl(const std::filesystem::path& path, std::string_view counter, std::int64_t last) {
  if (!std::filesystem::exists(path)) return 0;
  LineReader lines(path);
  std::size_t kept = 0;
  std::int64_t damaged = 0;
  std::optional<std::uint64_t> end;  // where the kept part ends
  std::uint64_t begin = 0;
  while (const std::optional<Line> line = next_line(lines, counter)) {
    if (!line->is_object && damaged == 0) damaged = lines.number();
    // A power cut may leave garbage at the end of the file, which is cut. It leaves none in front of lines that count.
    if (damaged != 0 && line->count && *line->count <= last) {
      throw CheckpointError(
          concat(path.string(), ":", damaged, " is not a line that tandem wrote: repair or remove it"));
    }
    if (!end && (damaged != 0 || (line->count && *line->count > last))) end = begin;
    if (!end) kept = static_cast<std::size_t>(lines.number());
    begin = lines.end();
  }
  const std::uint64_t size = end.value_or(lines.end());
  if (size != lines.bytes()) cut(path, size);
  return kept;
}

}  // namespace tandem
