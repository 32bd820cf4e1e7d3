// Parts are read one by one, so memory holds one part at a time; their digests are compared on the way.
#include "tandem/app/commands/checkpoint_text.h"

#include <ATen/core/Tensor.h>

#include "tandem/app/run/quantity_text.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) text += concat(text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

std::string type_of(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

}  // namespace

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

}  // namespace tandem::app
