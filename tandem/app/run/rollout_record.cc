#include "tandem/app/run/rollout_record.h"

#include <algorithm>
#include <sstream>

#include "tandem/app/run/run_folder.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/metrics/jsonl_sink.h"

namespace tandem::app {
namespace {

constexpr const char *kUpdates = "updates", *kStepsOfGroups = "steps";

// Checks all that a replay relies on: updates without a gap, as many groups as the run has, and at least one step made.
std::vector<int> read_line(const std::string& line, std::size_t number, int groups, int most) {
  const JsonValue value = read_json(line);
  const std::int64_t updates = value.at(kUpdates).as_int64();
  if (updates != static_cast<std::int64_t>(number))
    throw DataError(concat("it is of update ", updates, "; a record begins with update 1 and leaves none out"));
  std::vector<int> steps;
  for (const JsonValue& its : value.at(kStepsOfGroups).as_array()) {
    if (its.as_int64() < 0 || its.as_int64() > most)
      throw DataError(concat("a group made ", its.as_int64(), " steps; here they make ", most, " at most"));
    steps.push_back(static_cast<int>(its.as_int64()));
  }
  if (std::ssize(steps) != groups)
    throw DataError(concat("it has ", steps.size(), " env groups; here there are ", groups, ", as many as shards"));
  if (std::ranges::all_of(steps, [](int its) { return its == 0; })) throw DataError("no group made a step");
  return steps;
}

}  // namespace

RolloutRecord::RolloutRecord(const std::filesystem::path& path, std::int64_t updates)
    // Lines after update `updates` come from a process that went further than its last checkpoint; they are made again.
    : kept_(static_cast<std::int64_t>(truncate_jsonl(path, kUpdates, updates))), file_(path) {}

void RolloutRecord::append(std::int64_t updates, std::span<const int> steps) {
  JsonWriter json;
  json.begin_object().key(kUpdates).value(updates).key(kStepsOfGroups).begin_array();
  for (const int its : steps) json.value(its);
  json.end_array().end_object();
  file_.append(json.text() + "\n");
}

std::vector<std::vector<int>> read_rollouts(const std::string& text, const std::string& name, int groups, int most) {
  std::vector<std::vector<int>> updates;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    try {
      updates.push_back(read_line(line, updates.size() + 1, groups, most));
      // The user named the file, so a fault in it is one of the configuration, with the line to look at.
    } catch (const DataError& error) {
      throw ConfigError(concat(name, ", line ", updates.size() + 1, ": ", error.what()));
    }
  }
  if (updates.empty()) throw ConfigError(concat(name, " records no update"));
  return updates;
}

std::filesystem::path rollouts_of(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? RunPaths{path}.rollouts() : path;
}

}  // namespace tandem::app
