#include "tandem/rl/policy/observation.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// The shape of a leaf's tensor for so many rows.
std::vector<std::int64_t> with_rows(const Leaf& leaf, std::int64_t rows) {
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), leaf.shape.begin(), leaf.shape.end());
  return shape;
}

void check_leaf_count(const Spec& spec, std::size_t count) {
  if (count != spec.observation.size()) {
    throw ConfigError(
        concat(spec.id, ": an observation of ", count, " leaves was given, the spec has ", spec.observation.size()));
  }
}

}  // namespace

at::ScalarType scalar_type(ElementType type) {
  return type == ElementType::kFloat32 ? at::kFloat : type == ElementType::kUInt8 ? at::kByte : at::kLong;
}

// Nothing is copied: the tensors do not own the memory.
Observation view_observation(const Spec& spec, std::span<std::byte* const> leaves, std::int64_t rows) {
  check_leaf_count(spec, leaves.size());
  Observation tensors;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    tensors.push_back(at::from_blob(leaves[l], with_rows(leaf, rows), scalar_type(leaf.type)));
  }
  return tensors;
}

// The first leaf decides the number of rows that the others must have.
void check_observation(const Spec& spec, const Observation& observation) {
  check_leaf_count(spec, observation.size());
  for (std::size_t l = 0; l < observation.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    const at::Tensor& tensor = observation[l];
    const bool fits = tensor.defined() && tensor.dim() >= 1 && tensor.scalar_type() == scalar_type(leaf.type) &&
                      tensor.sizes() == with_rows(leaf, observation[0].size(0));
    if (!fits) {
      throw ConfigError(concat(spec.id, ": observation leaf '", leaf.name, "' is ",
                               tensor.defined() ? concat(tensor.scalar_type(), " ", tensor.sizes()) : "undefined",
                               ", must be [rows, ...] of ", describe(leaf), " with the same rows in every leaf"));
    }
  }
}

}  // namespace tandem::rl
