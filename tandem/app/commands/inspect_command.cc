// `inspect` shows what a checkpoint or a run folder holds, for people and for programs. Parts are read one by one, so
// memory holds one part at a time; their digests are compared on the way. A stored configuration is shown as its text
// and not parsed, so checkpoints of other programs can be shown, too.
//
// A run may write while it is read: only whole lines count, and the newer of summary and metrics tells the state.
#include <ATen/core/Tensor.h>

#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/update_metrics.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::app {
namespace {

constexpr std::string_view kEnvFigures = "env/";  // an environment's own metrics

std::string shape_of(const at::Tensor& tensor) { return "[" + joined(tensor.sizes()) + "]"; }

std::string type_of(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

std::string checkpoint_text(const model::Checkpoint& checkpoint) {
  const model::CheckpointInfo& info = checkpoint.info();
  std::string text = concat("checkpoint ", checkpoint.folder().string(), "\n  kind     ", info.kind,
                            ", written by tandem ", info.tandem_version, "\n");
  for (const auto& [name, value] : info.counters) text += concat("  ", name, "  ", value, "\n");
  if (info.score) text += concat("  score  ", value_text(*info.score), "\n");
  for (const model::CheckpointPart& part : checkpoint.parts()) {
    text += concat("\n", part.name, "  ", count_text(static_cast<double>(part.bytes)), "B  sha256 ", part.sha256, "\n");
    for (const auto& [name, tensor] : checkpoint.read_part(part.name).tensors) {
      text += concat("  ", name, "  ", type_of(tensor), shape_of(tensor), "\n");
    }
  }
  const auto config = info.metadata.find("config");
  return config == info.metadata.end() ? text : concat(text, "\n", config->second);
}

std::string checkpoint_json(const model::Checkpoint& checkpoint) {
  const model::CheckpointInfo& info = checkpoint.info();
  JsonWriter json;
  json.begin_object().key("folder").value(checkpoint.folder().string());
  json.key("kind").value(info.kind).key("tandem_version").value(info.tandem_version).key("counters").begin_object();
  for (const auto& [name, value] : info.counters) json.key(name).value(value);
  json.end_object().key("score");
  info.score ? json.value(*info.score) : json.value(nullptr);
  json.key("metadata").begin_object();
  for (const auto& [name, value] : info.metadata) json.key(name).value(value);
  json.end_object().key("parts").begin_array();
  for (const model::CheckpointPart& part : checkpoint.parts()) {
    json.begin_object().key("name").value(part.name).key("bytes").value(part.bytes).key("sha256").value(part.sha256);
    json.key("tensors").begin_array();
    for (const auto& [name, tensor] : checkpoint.read_part(part.name).tensors) {
      json.begin_object().key("name").value(name).key("dtype").value(type_of(tensor)).key("shape").begin_array();
      for (const std::int64_t size : tensor.sizes()) json.value(size);
      json.end_array().end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text();
}

// The outcome of a run: the summary of one that has ended, else the last line of its metrics.
struct LastKnown {
  bool ended = false;
  JsonValue values;  // null: nothing yet
};
LastKnown last_known(const RunPaths& paths) {
  const JsonValue metrics = read_last_line(paths.metrics());
  std::error_code ignored;
  if (!std::filesystem::exists(paths.summary(), ignored)) return {false, metrics};
  const JsonValue summary = read_json_file(paths.summary());
  // A run that was resumed has the summary of its first end until it ends again.
  const bool went_on = !metrics.is_null() && metrics.at("updates").as_int64() > summary.at("updates").as_int64();
  return went_on ? LastKnown{false, metrics} : LastKnown{true, summary};
}

void write(JsonWriter& json, const JsonValue& value) {
  if (value.is_null()) {
    json.value(nullptr);
  } else if (value.is_string()) {
    json.value(value.as_string());
  } else if (value.is_integer()) {
    json.value(value.as_int64());
  } else if (value.is_number()) {
    json.value(value.as_double());
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

std::string state_text(const LastKnown& known, const RunPaths& paths) {
  if (known.values.is_null()) {
    return RunLock::is_held(paths.folder)
               ? "  state    under way, no update was recorded yet\n"
               : concat("  state    not ended, and no process is at it; no update was recorded. `tandem resume ",
                        paths.folder.string(), "` begins it anew\n");
  }
  const JsonValue& last = known.values;
  const char* const how = last.find("reason") == nullptr ? "end" : "reason";
  const bool is_held = !known.ended && RunLock::is_held(paths.folder);
  std::string text =
      concat("  state    ",
             known.ended ? value_of(last, how)
             : is_held   ? "under way"
                         : "ended without a word",
             " after ", count_of(last, "env_steps"), " steps, ", count_of(last, "updates"), " updates\n");
  if (!known.ended && !is_held) {
    text +=
        concat("  failure  no process is at it: it was killed, its machine went down, or a library called _exit(); `",
               program_name(), " resume ", paths.folder.string(), "` goes on from the last checkpoint\n");
  }
  if (known.ended && last.find("failure") != nullptr) text += concat("  failure  ", value_of(last, "failure"), "\n");
  text += concat("  return   ", value_of(last, "episode_return_mean"), " (mean of the last 100 episodes)\n");
  for (const auto& [name, value] : last.as_object()) {
    if (name.starts_with(kEnvFigures))
      text += concat("  ", align_left(name.substr(kEnvFigures.size()), 8), " ", value_of(last, name), "\n");
  }
  if (known.ended) text += concat("  solved   ", solved_text(last), "\n");
  text += concat("  speed    ", count_of(last, "env_steps_per_s"), " steps/s\n");
  if (known.ended && last.find("state_sha256") != nullptr)
    text += concat("  state_sha256  ", value_of(last, "state_sha256"), "\n");
  return text;
}

std::string run_text(const RunPaths& paths) {
  const TrainOptions options = read_recorded(paths.config());
  std::string text = concat("run ", paths.folder.string(), "\n  task     ", options.env, " with ", options.algo,
                            ", seed ", options.seed, ", ", options.devices, ", ", options.shards.value_or(1),
                            options.shards == 1 ? " shard, " : " shards, ",
                            count_text(static_cast<double>(options.total_steps)), " steps\n");
  text += state_text(last_known(paths), paths) + "  checkpoints\n";
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
  json.key("in_use").value(RunLock::is_held(paths.folder));
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

}  // namespace

// Each is known by one file: a checkpoint by its manifest, a run by its config.yaml.
ExitCode run_command(const InspectCommand& command) {
  const bool json = command.output == Output::kJson;
  if (is_checkpoint(command.source)) {
    const model::Checkpoint checkpoint = model::Checkpoint::open(command.source);
    std::cout << (json ? checkpoint_json(checkpoint) + "\n" : printable(checkpoint_text(checkpoint)));
  } else if (holds_run(command.source)) {
    const RunPaths paths{command.source};
    std::cout << (json ? run_json(paths) + "\n" : printable(run_text(paths)));
  } else {
    throw ConfigError(concat(command.source.string(), " is neither a run folder nor a checkpoint"));
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
