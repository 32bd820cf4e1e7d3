#include "tandem/sync/model_description.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

std::string line_of(const std::string& text, std::size_t number) {
  std::istringstream in(text);
  std::string line;
  for (std::size_t i = 0; i <= number; ++i) {
    if (!std::getline(in, line)) return "nothing (its model has fewer tensors)";
  }
  return line;
}

std::size_t first_difference(const std::string& a, const std::string& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(std::count(a.begin(), in_a, '\n'));
}

}  // namespace

std::string describe_model(Replica& replica) {
  std::string text;
  for (const model::FlatBuffer& buffer : replica.parameters().buffers()) {
    for (const model::ParameterSlot& slot : buffer.slots) {
      text += concat("parameter ", slot.name, " ", c10::toString(buffer.values.scalar_type()), " ",
                     c10::IntArrayRef(slot.shape), buffer.sparse ? " sparse" : "", "\n");
    }
  }
  for (const auto& [name, tensor] : replica.state()) {
    text += concat("state ", name, " ", c10::toString(tensor.scalar_type()), " ", tensor.sizes(), "\n");
  }
  return text;
}

void require_same_model(const std::vector<std::string>& descriptions) {
  for (std::size_t other = 1; other < descriptions.size(); ++other) {
    if (descriptions[other] == descriptions[0]) continue;
    const std::size_t line = first_difference(descriptions[0], descriptions[other]);
    std::string message = "the replicas do not hold the same model; the first difference:";
    for (std::size_t i = 0; i < descriptions.size(); ++i)
      message += concat("\n    replica ", i, " has ", line_of(descriptions[i], line));
    throw ConfigError(message + "\n  Build every replica's model with the same options.");
  }
}

}  // namespace tandem::sync
