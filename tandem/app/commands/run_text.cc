// The run may write while it is read: only whole lines count, and the newer of summary and metrics tells the state.
#include "tandem/app/commands/run_text.h"

#include <cmath>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::app {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The last whole line of metrics.jsonl; empty when there is none.
std::string last_metrics(const RunPaths& paths) {
  if (!is_there(paths.metrics())) return "";
  const std::string text = read_file(paths.metrics());
  const std::size_t end = text.rfind('\n');
  if (end == std::string::npos) return "";
  const std::size_t begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return text.substr(begin + 1, end - begin - 1);  // npos + 1 is 0
}

// The outcome of a run: the summary of one that has ended, else the last line of its metrics.
struct LastKnown {
  bool ended = false;
  JsonValue values;  // null: nothing yet
};
LastKnown last_known(const RunPaths& paths) {
  const std::string metrics = last_metrics(paths);
  if (!is_there(paths.summary())) return {false, metrics.empty() ? JsonValue(nullptr) : read_json(metrics)};
  const JsonValue summary = read_json_file(paths.summary());
  // A run that was resumed has the summary of its first end until it ends again.
  const bool went_on =
      !metrics.empty() && read_json(metrics).at("updates").as_int64() > summary.at("updates").as_int64();
  return went_on ? LastKnown{false, read_json(metrics)} : LastKnown{true, summary};
}

void write(JsonWriter& json, const JsonValue& value) {
  if (value.is_null()) {
    json.value(nullptr);
  } else if (value.is_string()) {
    json.value(value.as_string());
  } else if (value.is_number()) {
    // JsonValue holds all numbers as doubles; counts are written back as integers.
    constexpr double kLargestExact = 9007199254740992.0;  // 2^53
    const double number = value.as_double();
    const bool whole = number == std::floor(number) && std::abs(number) < kLargestExact;
    whole ? json.value(static_cast<std::int64_t>(number)) : json.value(number);
  } else if (value.is_array()) {
    json.begin_array();
    for (const JsonValue& element : value.as_array()) write(json, element);
    json.end_array();
  } else if (value.is_object()) {
    json.begin_object();
    for (const auto& [key, member] : value.as_object()) write(json.key(key), member);
    json.end_object();
  } else {
    json.value(value.as_bool());
  }
}

struct CheckpointLine {
  std::int64_t updates = 0;
  std::filesystem::path folder;
  std::int64_t env_steps = 0;
  std::optional<double> score;
  std::uint64_t bytes = 0;
};

// Reads manifests only, so it is fast for large checkpoints.
std::vector<CheckpointLine> checkpoints_of(const RunPaths& paths) {
  const model::CheckpointStore store(paths.checkpoints());
  std::vector<CheckpointLine> lines;
  for (const std::int64_t updates : store.list()) {
    const model::Checkpoint checkpoint = store.open(updates);
    CheckpointLine line{.updates = updates, .folder = checkpoint.folder(), .score = checkpoint.info().score};
    const auto steps = checkpoint.info().counters.find("env_steps");
    if (steps != checkpoint.info().counters.end()) line.env_steps = steps->second;
    for (const model::CheckpointPart& part : checkpoint.parts()) line.bytes += part.bytes;
    lines.push_back(line);
  }
  return lines;
}

std::string value_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  if (value == nullptr || value->is_null()) return "unknown";
  if (value->is_string()) return value->as_string();
  return value->is_number() ? value_text(value->as_double()) : "?";
}

std::string count_of(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  return value == nullptr || !value->is_number() ? "unknown" : count_text(value->as_double());
}

std::string solved_text(const JsonValue& summary) {
  const JsonValue* steps = summary.find("solved_at_env_steps");
  if (steps == nullptr || !steps->is_number()) return "no";
  return concat("after ", count_text(steps->as_double()), " steps");
}

std::string state_text(const LastKnown& known) {
  if (known.values.is_null()) return "  no update was recorded yet\n";
  const JsonValue& last = known.values;
  std::string text = concat("  state    ", known.ended ? value_of(last, "end") : "not ended", " after ",
                            count_of(last, "env_steps"), " steps, ", count_of(last, "updates"), " updates\n");
  if (known.ended && last.find("failure") != nullptr) text += concat("  failure  ", value_of(last, "failure"), "\n");
  text += concat("  return   ", value_of(last, "episode_return_mean"), " (mean of the last 100 episodes)\n");
  if (known.ended) text += concat("  solved   ", solved_text(last), "\n");
  text += concat("  speed    ", count_of(last, "env_steps_per_s"), " steps/s\n");
  if (known.ended && last.find("state_sha256") != nullptr)
    text += concat("  state_sha256  ", value_of(last, "state_sha256"), "\n");
  return text;
}

}  // namespace

std::string run_text(const RunPaths& paths) {
  const TrainOptions options = read_recorded(paths.config());
  std::string text = concat("run ", paths.folder.string(), "\n  task     ", options.env, " with ", options.algo,
                            ", seed ", options.seed, ", ", options.devices, ", ", options.shards.value_or(1),
                            options.shards == 1 ? " shard, " : " shards, ",
                            count_text(static_cast<double>(options.total_steps)), " steps\n");
  text += state_text(last_known(paths)) + "  checkpoints\n";
  for (const CheckpointLine& line : checkpoints_of(paths)) {
    text += concat("    ", line.folder.string(), "  ", count_text(static_cast<double>(line.env_steps)),
                   " steps, return ", line.score ? value_text(*line.score) : "unknown", ", ",
                   count_text(static_cast<double>(line.bytes)), "B\n");
  }
  return text;
}

std::string run_json(const RunPaths& paths) {
  JsonWriter json;
  json.begin_object().key("folder").value(paths.folder.string());
  json.key("config").value(read_file(paths.config()));
  const LastKnown known = last_known(paths);
  json.key("ended").value(known.ended);
  json.key("last");
  write(json, known.values);
  json.key("checkpoints").begin_array();
  for (const CheckpointLine& line : checkpoints_of(paths)) {
    json.begin_object().key("folder").value(line.folder.string()).key("updates").value(line.updates);
    json.key("env_steps").value(line.env_steps).key("bytes").value(line.bytes).key("score");
    line.score ? json.value(*line.score) : json.value(nullptr);
    json.end_object();
  }
  return json.end_array().end_object().text();
}

}  // namespace tandem::app
