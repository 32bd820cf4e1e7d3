#include "tandem/metrics/jsonl_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// Cuts the file to `size` bytes, also on the disk.
void cut(const std::filesystem::path& path, std::size_t size) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) throw_file_error("open", path, errno);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0 || ::fsync(file.get()) != 0)
    throw_file_error("cut back", path, errno);
}

// Whether there is such a file. Refuses a device or a pipe, whose content could be endless.
bool is_there(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return false;
  if (std::filesystem::is_regular_file(path)) return true;
  throw CheckpointError(concat(path.string(), " is not a regular file; lines are kept in one, so move it away"));
}

// Removes everything behind the last line end. Returns `path`, so that a constructor can call it before opening the
// file.
const std::filesystem::path& without_torn_line(const std::filesystem::path& path) {
  if (!is_there(path)) return path;
  const std::string content = read_file(path);
  const std::size_t whole = content.rfind('\n') + 1;  // npos + 1 is 0
  if (whole != content.size()) cut(path, whole);
  return path;
}

// The part of a line that decides about its fate: whether it is an object, and its counter if it has one.
struct Line {
  bool is_object = false;
  std::optional<std::int64_t> count;
};

Line read_line(std::string_view text, std::string_view counter) {
  try {
    const JsonValue value = read_json(text);
    const JsonValue* count = value.find(counter);
    return {true, count == nullptr ? std::nullopt : std::optional(count->as_int64())};
  } catch (const JsonError&) {
    return {};
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
  if (!is_there(path)) return 0;
  const std::string content = read_file(path);
  std::size_t kept = 0, number = 0, damaged = 0;
  std::optional<std::size_t> end;  // where the kept part ends
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t line_end = content.find('\n', at);
    if (line_end == std::string::npos) break;
    const Line line = read_line(std::string_view(content).substr(at, line_end - at), counter);
    ++number;
    if (!line.is_object && damaged == 0) damaged = number;
    // A power cut may leave garbage at the end of the file, which is cut. It leaves none in front of lines that count.
    if (damaged != 0 && line.count && *line.count <= last) {
      throw CheckpointError(
          concat(path.string(), ":", damaged, " is not a line that tandem wrote: repair or remove it"));
    }
    if (!end && (damaged != 0 || (line.count && *line.count > last))) end = at;
    if (!end) kept = number;
    at = line_end + 1;
  }
  const std::size_t size = end.value_or(content.rfind('\n') + 1);
  if (size != content.size()) cut(path, size);
  return kept;
}

}  // namespace tandem
