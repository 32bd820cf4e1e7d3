#include "tandem/rl/env/isolated/worker_task.h"

#include <limits>

#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"

namespace tandem::rl {

std::string json_of(const WorkerTask& task) {
  JsonWriter json;
  json.begin_object().key("env").value(task.env).key("options").begin_object();
  for (const auto& [name, text] : task.options) json.key(name).value(text);
  json.end_object().key("plugins").begin_array();
  for (const std::filesystem::path& plugin : task.plugins) json.value(plugin.string());
  json.end_array().key("wrappers").begin_array();
  for (const std::string& wrapper : task.wrappers) json.value(wrapper);
  json.end_array().key("environments").value(task.environments);
  if (task.part) json.key("first").value(task.part->first).key("whole").value(task.part->whole);
  if (task.restarts) json.key("restarts").value(*task.restarts);
  json.end_object();
  return json.text();
}

WorkerTask read_task(std::string_view json) {
  const JsonValue value = read_json(json);
  WorkerTask task{.env = value.at("env").as_string()};
  for (const auto& [name, text] : value.at("options").as_object()) task.options.emplace_back(name, text.as_string());
  for (const JsonValue& plugin : value.at("plugins").as_array()) task.plugins.emplace_back(plugin.as_string());
  for (const JsonValue& wrapper : value.at("wrappers").as_array()) task.wrappers.push_back(wrapper.as_string());
  const std::int64_t environments = value.at("environments").as_int64();
  if (environments < 1 || environments > std::numeric_limits<int>::max())
    throw JsonError("a worker's task has no environments");
  task.environments = static_cast<int>(environments);
  if (const JsonValue* first = value.find("first")) {
    task.part = WorkerTask::PartOfGroup{.first = static_cast<int>(first->as_int64()),
                                        .whole = static_cast<int>(value.at("whole").as_int64())};
  }
  if (const JsonValue* restarts = value.find("restarts")) task.restarts = restarts->as_int64();
  return task;
}

}  // namespace tandem::rl
