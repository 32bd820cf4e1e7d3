#include "tandem/sync/ownership.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/equal_parts.h"

namespace tandem::sync {
namespace {

struct Variable {
  std::size_t buffer = 0;
  std::int64_t begin = 0, end = 0;  // elements up to the next variable, so that padding has an owner, too
  std::int64_t bytes = 0;
};

// All dense parameters, in the order of the flat memory.
std::vector<Variable> variables_of(const model::FlatParameters& parameters) {
  std::vector<Variable> all;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (buffer.sparse) continue;
    const auto element_bytes = static_cast<std::int64_t>(buffer.values.element_size());
    for (std::size_t s = 0; s < buffer.slots.size(); ++s) {
      const std::int64_t end = s + 1 < buffer.slots.size() ? buffer.slots[s + 1].offset : buffer.values.numel();
      all.push_back({b, buffer.slots[s].offset, end, buffer.slots[s].count * element_bytes});
    }
  }
  return all;
}

}  // namespace

Ownership divide_equally(const model::FlatParameters& parameters, int members) {
  Ownership ownership;
  for (const model::FlatBuffer& buffer : parameters.buffers()) {
    std::vector<comm::OwnedPart> parts;
    const EqualParts cut(buffer.values.numel(), members);
    for (int member = 0; member < members && !buffer.sparse; ++member)
      parts.push_back({.owner = member, .begin = cut.begin(member), .end = cut.begin(member + 1)});
    ownership.push_back(comm::joined(parts));
  }
  return ownership;
}

// Every member computes the same plan: the sort is stable, and the first server of the least load is taken.
Ownership place_by_load(const model::FlatParameters& parameters, int servers) {
  std::vector<Variable> variables = variables_of(parameters);
  std::ranges::stable_sort(variables, std::ranges::greater(), &Variable::bytes);
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers));
  Ownership ownership(parameters.buffers().size());
  for (const Variable& variable : variables) {
    const auto least = std::ranges::min_element(load);
    *least += variable.bytes;
    ownership[variable.buffer].push_back(
        {.owner = static_cast<int>(least - load.begin()), .begin = variable.begin, .end = variable.end});
  }
  // In the order of elements, with neighbours of one owner joined, so that a group hands round few parts.
  for (std::vector<comm::OwnedPart>& parts : ownership) {
    std::ranges::sort(parts, {}, &comm::OwnedPart::begin);
    parts = comm::joined(parts);
  }
  return ownership;
}

std::vector<std::vector<model::Elements>> elements_of(const Ownership& ownership, int member) {
  std::vector<std::vector<model::Elements>> all;
  for (const std::vector<comm::OwnedPart>& parts : ownership) {
    std::vector<model::Elements>& its = all.emplace_back();
    for (const comm::OwnedPart& part : parts) {
      if (part.owner == member) its.push_back({.begin = part.begin, .end = part.end});
    }
  }
  return all;
}

}  // namespace tandem::sync
