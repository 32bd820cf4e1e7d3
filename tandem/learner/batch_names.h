// learner/batch_names.h: how messages call the numbers of a batch.
//
// Threads: plain values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tandem::learner {

struct ColumnName {
  std::string text;  // "observation leaf 'speed'"
  /// So many of the last dimensions of the tensor belong to one row. Not given: all but the first.
  std::optional<std::int64_t> dims_of_row = {};
  /// Whether its numbers come into the training from outside, so that large ones are a cause and no consequence.
  bool is_given = false;
  std::string next_step = {};  // what to do about numbers that are too large; empty: nothing is known
};

/// Functions may be empty.
struct BatchNames {
  /// "environment 3, step 17": a row of a shard's columns or states. It may return nothing, and the row's number is
  /// named alone.
  std::function<std::string(int shard, std::int64_t row)> row = {};
  /// The column or state `name`, before which there are `nth` others of the same name.
  std::function<ColumnName(const std::string& name, std::size_t nth)> column = {};
};

}  // namespace tandem::learner
