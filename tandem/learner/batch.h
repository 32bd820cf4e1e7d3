// learner/batch.h: a batch of experience or samples as named columns. Plain values.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::learner {

/// Names with tensors whose first dimension is rows, in a fixed order.
using Columns = std::vector<std::pair<std::string, at::Tensor>>;

/// `columns` have one row for each time step. For recurrent models, `states` have one row for each sequence, and the
/// rows of a sequence follow each other in `columns`: sequence s is rows [s * length, (s + 1) * length). Copies share
/// the tensors' memory. Nothing here checks the columns; LoadedBatch does when it loads them.
struct Batch {
  Columns columns{};
  Columns states{};
};

/// The tensor called `name`. Throws DataError naming the columns that there are. The columns are few, so they are
/// searched one after the other.
[[nodiscard]] inline const at::Tensor& column(const Columns& columns, std::string_view name) {
  for (const auto& [other, tensor] : columns) {
    if (other == name) return tensor;
  }
  throw DataError(concat("the batch has no column '", name,
                         "'; it has: ", joined(columns, [](const auto& known) { return known.first; })));
}

/// Rows that all columns have. Throws DataError naming a column with another count, an empty set, or a scalar column.
[[nodiscard]] inline std::int64_t rows_of(const Columns& columns) {
  if (columns.empty()) throw DataError("the batch has no columns");
  std::int64_t rows = -1;
  for (const auto& [name, tensor] : columns) {
    if (!tensor.defined() || tensor.dim() == 0)
      throw DataError(concat("column '", name, "' has no rows: it is a scalar or undefined"));
    if (rows < 0) rows = tensor.size(0);
    if (tensor.size(0) != rows) {
      throw DataError(
          concat("column '", name, "' has ", tensor.size(0), " rows, but '", columns.front().first, "' has ", rows));
    }
  }
  return rows;
}

}  // namespace tandem::learner
