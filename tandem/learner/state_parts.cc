#include "tandem/learner/state_parts.h"

#include <algorithm>
#include <sstream>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/safetensors.h"

namespace tandem::learner {
namespace {

constexpr const char* kParts = "parts";  // metadata: the names of all parts, empty ones included, a line each

// One safetensors file whose tensors are called "part/name", with the names of all parts in its metadata. Tensors may
// come back in another order within a part.
std::vector<std::byte> to_bytes(const StateParts& parts) {
  model::NamedTensors all;
  std::string names;
  for (const auto& [part, tensors] : parts) {
    names += part + "\n";
    for (const auto& [name, tensor] : tensors) all.emplace_back(concat(part, "/", name), tensor);
  }
  std::vector<std::byte> bytes;
  model::write_safetensors(all, {{kParts, names}}, [&bytes](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

// Reads such a file and adds its parts behind those that are there.
void append(std::span<const std::byte> bytes, StateParts& parts) {
  model::TensorFile file = model::read_safetensors(bytes);
  std::istringstream names(file.metadata.at(kParts));
  for (std::string name; std::getline(names, name);) parts.emplace_back(name, model::NamedTensors{});
  for (auto& [full_name, tensor] : file.tensors) {
    const std::size_t slash = full_name.find('/');
    TANDEM_CHECK(slash != std::string::npos, "a tensor '", full_name, "' among parts");
    const std::string part = full_name.substr(0, slash), name = full_name.substr(slash + 1);
    const auto place = std::find_if(parts.begin(), parts.end(), [&](const auto& other) { return other.first == part; });
    TANDEM_CHECK(place != parts.end(), "a tensor of part '", part, "', which is not announced");
    place->second.emplace_back(name, std::move(tensor));
  }
}

}  // namespace

StateParts gather_parts(const Ranks& ranks, StateParts mine) {
  if (ranks.size() == 1) return mine;
  StateParts all;
  for (const std::vector<std::byte>& bytes : ranks.gather(to_bytes(mine))) append(bytes, all);
  return all;
}

// Ranks but the root send nothing, and read the root's bytes.
StateParts parts_from(const Ranks& ranks, int root, StateParts roots) {
  if (ranks.size() == 1) return roots;
  const bool is_mine = ranks.rank() == root;
  const std::vector<std::byte> bytes = ranks.from(root, is_mine ? to_bytes(roots) : std::vector<std::byte>());
  StateParts parts;
  append(bytes, parts);
  return parts;
}

StateParts parts_from_leader(const Ranks& ranks, const std::vector<std::string>& names, const ReadPart& read) {
  StateParts parts;
  if (ranks.leads()) {
    for (const std::string& name : names) parts.emplace_back(name, read(name));
  }
  return parts_from(ranks, 0, std::move(parts));
}

const model::NamedTensors& part_of(const StateParts& parts, std::string_view name) {
  for (const auto& [other, tensors] : parts) {
    if (other == name) return tensors;
  }
  throw CheckpointError(concat("the checkpoint has no part '", name, "'"));
}

}  // namespace tandem::learner
