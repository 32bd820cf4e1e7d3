// model/files/pickle_nodes.h: what the program of a pickle has built, before it becomes values of LibTorch.
//
// Values are nodes with numbers, and containers hold the numbers of their parts. So a reference to what was built
// before costs four bytes, however much stands behind it, and nothing is copied while the program runs.
//
// Threads: single-thread. Ownership: texts are views of the pickle, which must outlive the nodes.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tandem/base/budget.h"

namespace tandem::model {

using PickleId = std::uint32_t;

struct PickleNode {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kDouble,
    kText,
    kGlobal,
    kTuple,
    kList,
    kDict,
    kStorage,
    kTensor
  };
  Kind kind = Kind::kNone;
  // kBool, kInt: the number. kStorage, kTensor: the place in `tensors`. kText: the text. kGlobal: "module\nname".
  // kTuple, kList: the parts. kDict: key, value, key, value.
  std::variant<std::int64_t, double, std::string_view, std::vector<PickleId>> content = std::int64_t{0};

  [[nodiscard]] std::int64_t number() const { return std::get<std::int64_t>(content); }
  [[nodiscard]] std::string_view text() const { return std::get<std::string_view>(content); }
  [[nodiscard]] const std::vector<PickleId>& parts() const { return std::get<std::vector<PickleId>>(content); }
};

struct PickleNodes {
  std::deque<PickleNode> nodes;
  std::vector<at::Tensor> tensors;
};

/// The containers that may be nested: what walks over a value is recursive, and so is its destruction.
inline constexpr int kMostPickleDepth = 64;
/// The parts of a value, counted as often as something refers to them, as everybody who walks over the value will.
inline constexpr std::uint64_t kMostPickleParts = 10'000'000;

/// The node `root` with everything in it. What was built once is one value, however often the pickle refers to it.
/// Memory is counted by `budget`, which throws; so does a container in itself, a dict with a key twice, and a global.
[[nodiscard]] at::IValue pickle_value(const PickleNodes& nodes, PickleId root, Budget& budget);

/// The text of a global for messages: "module name", shortened.
[[nodiscard]] std::string python_name(std::string_view global);
/// Throws the CheckpointError of a pickle.
[[noreturn]] void fail_pickle(const std::string& why);

}  // namespace tandem::model
