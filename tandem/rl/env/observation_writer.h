// rl/env/observation_writer.h: checks and copies what a user's environment shows into the rows of its leaves.
//
// An Observation is a number, a contiguous range of numbers, or a tuple or pair of these with one entry a leaf. What is
// known when compiling (the number of leaves, the types of elements) is compared with the spec once, by
// observation_faults(); sizes and values are checked at each write.
//
// Threads: free functions on values; none takes memory unless it throws. Errors: EnvError with the bare reason; the
// caller adds environment and step.
// Memory: a leaf's memory holds the rows of all environments one behind the other, each as Leaf::shape in row-major
// order; rows are written in place, so nothing is copied twice.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

namespace observation {

// The entries of an Observation, one a leaf: those of a tuple or pair; any other value is the only one. A struct with
// one leaf need not wrap it into a tuple.
template <typename Value>
std::tuple<const Value&> entries_of(const Value& value) {
  return {value};
}
template <typename... Values>
const std::tuple<Values...>& entries_of(const std::tuple<Values...>& value) {
  return value;
}
template <typename First, typename Second>
const std::pair<First, Second>& entries_of(const std::pair<First, Second>& value) {
  return value;
}
template <typename Observation>
using Entries = std::remove_cvref_t<decltype(entries_of(std::declval<const Observation&>()))>;
template <typename Observation>
using Indices = std::make_index_sequence<std::tuple_size_v<Entries<Observation>>>;

// The type of the numbers in one leaf's value: a scalar's own type, or that of a range's elements. A type that is
// neither is refused when compiling, with the text of the assertion.
template <typename Value>
struct Element {
  static_assert(std::is_arithmetic_v<Value>, "an observation is a number, a contiguous range of numbers, or a tuple");
  using Type = Value;
};
template <std::ranges::contiguous_range Value>
struct Element<Value> {
  using Type = std::ranges::range_value_t<Value>;
};

/// The leaf type that numbers of a C++ type belong to: bool is stored as uint8, every other integer as int64, and a
/// floating-point type that is larger than float as float64, or as float32 where the spec says so.
template <typename Number>
constexpr ElementType type_of() {
  static_assert(std::is_arithmetic_v<Number>, "an observation has elements that are numbers");
  if (std::is_floating_point_v<Number>)
    return sizeof(Number) > sizeof(float) ? ElementType::kFloat64 : ElementType::kFloat32;
  if (std::is_same_v<Number, std::uint8_t> || std::is_same_v<Number, bool>) return ElementType::kUInt8;
  return ElementType::kInt64;
}

// The leaf types that an Observation has, in the order of its entries. The vector is made once, when a group is
// constructed.
template <typename Observation>
std::vector<ElementType> types_of() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<ElementType>{
        type_of<typename Element<std::remove_cvref_t<std::tuple_element_t<I, Entries<Observation>>>>::Type>()...};
  }
  (Indices<Observation>());
}

// Whether numbers of `type` can be written to a leaf: float64 also to one of float32, which is the default type.
inline bool fits(ElementType type, const Leaf& leaf) {
  return type == leaf.type || (type == ElementType::kFloat64 && leaf.type == ElementType::kFloat32);
}

// Copies numbers to the leaf's memory, converted to its element type where they are of another one. A double may lose
// digits here, or become infinite; write_floats() looks for the latter afterwards.
template <typename Stored, typename Number>
void copy(std::span<const Number> from, std::byte* to) {
  if constexpr (std::is_same_v<Stored, Number>) {
    std::memcpy(to, from.data(), from.size_bytes());
  } else {
    std::ranges::transform(from, reinterpret_cast<Stored*>(to), [](Number x) { return static_cast<Stored>(x); });
  }
}

// Policies of Tandem's look an integer up in a table that is as long as its bounds say. Throws EnvError with the first
// one outside of them.
inline void check_within_bounds(const Leaf& leaf, std::span<const std::int64_t> numbers) {
  if (leaf.low.empty()) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<double>(numbers[i]);
    if (number >= leaf.low[i] && number <= leaf.high[i]) continue;
    throw EnvError(concat("element ", i, " of its observation leaf '", leaf.name, "' is ", numbers[i],
                          "; the spec says ", leaf.low[i], " .. ", leaf.high[i]));
  }
}

// Copies real numbers and checks that all are finite as `Stored`, as which a double may be too large.
template <typename Stored, typename Number>
void write_floats(const Leaf& leaf, std::span<const Number> numbers, std::byte* to) {
  copy<Stored>(numbers, to);
  const std::span<const Stored> written(reinterpret_cast<const Stored*>(to), numbers.size());
  const auto at = first_not_finite(written);
  if (!at) return;
  const std::string what = concat("element ", *at, " of its observation leaf '", leaf.name, "' is ");
  if constexpr (sizeof(Number) > sizeof(Stored)) {
    if (std::isfinite(numbers[*at]))
      throw EnvError(concat(what, numbers[*at], ", which is beyond ", name_of(leaf.type), ": return smaller numbers"));
  }
  throw EnvError(concat(what, written[*at]));
}

// Checks the number of elements and copies them; of floating-point leaves it checks that all are finite, of int64 ones
// that they lie within the spec's bounds. Throws EnvError with the leaf's name and the first element that is wrong.
template <typename Number>
void write_numbers(const Leaf& leaf, std::span<const Number> numbers, std::byte* to) {
  if (numbers.size() != static_cast<std::size_t>(leaf.count())) {
    throw EnvError(concat("its observation leaf '", leaf.name, "' has ", numbers.size(), " elements; the spec says ",
                          leaf.count(), " (", describe(leaf), ")"));
  }
  if constexpr (std::is_floating_point_v<Number>) {
    if constexpr (type_of<Number>() == ElementType::kFloat64) {
      if (leaf.type == ElementType::kFloat64) return write_floats<double>(leaf, numbers, to);
    }
    write_floats<float>(leaf, numbers, to);
  } else if constexpr (type_of<Number>() == ElementType::kUInt8) {
    copy<std::uint8_t>(numbers, to);
  } else {
    copy<std::int64_t>(numbers, to);
    check_within_bounds(leaf, {reinterpret_cast<const std::int64_t*>(to), numbers.size()});
  }
}

// Writes the value of one leaf, a range or a scalar. A scalar is written as a range of one number, so that it is
// checked like one.
template <typename Value>
void write_leaf(const Leaf& leaf, const Value& value, std::byte* to) {
  using Number = typename Element<Value>::Type;
  if constexpr (std::ranges::contiguous_range<Value>) {
    write_numbers(leaf, std::span<const Number>(std::ranges::data(value), std::ranges::size(value)), to);
  } else {
    write_numbers(leaf, std::span<const Number>(&value, 1), to);
  }
}

}  // namespace observation

/// Finds where the types of an Observation disagree with the leaves of a spec. Returns one sentence for each; empty
/// when they agree. A number of leaves that differs is the only fault told, since types cannot be compared leaf by leaf
/// then.
template <typename Observation>
[[nodiscard]] std::vector<std::string> observation_faults(const Spec& spec) {
  const std::vector<ElementType> types = observation::types_of<Observation>();
  if (types.size() != spec.observation.size()) {
    return {concat("environment '", spec.id, "': its observations are made of ", types.size(),
                   " arrays and its spec has ", spec.observation.size(),
                   " leaves; return a std::tuple with one entry a leaf")};
  }
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (observation::fits(types[i], spec.observation[i])) continue;
    faults.push_back(concat("environment '", spec.id, "': observation leaf ", i, " is '", describe(spec.observation[i]),
                            "' in its spec, and its observations hold ", name_of(types[i])));
  }
  return faults;
}

/// Writes an observation into row `row` of each leaf; `leaves[l]` is the memory of leaf l, as in EnvArrays. Throws
/// EnvError when a leaf has another number of elements than the spec says, or a value is not finite; rows may then be
/// half written. No row but `row` is touched. The types must have been accepted by observation_faults() before.
template <typename Observation>
void write_observation(const Spec& spec, const Observation& value, const std::vector<std::byte*>& leaves,
                       std::size_t row) {
  const auto write = [&](std::size_t leaf, const auto& part) {
    const Leaf& shape = spec.observation[leaf];
    observation::write_leaf(shape, part, leaves[leaf] + row * shape.bytes());
  };
  const auto& entries = observation::entries_of(value);
  [&]<std::size_t... I>(std::index_sequence<I...>) { (write(I, std::get<I>(entries)), ...); }
  (observation::Indices<Observation>());
}

}  // namespace tandem::rl
