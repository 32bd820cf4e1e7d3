#include "tandem/learner/batch.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::learner {

const at::Tensor& column(const Columns& columns, const std::string& name) {
  for (const auto& [other, tensor] : columns) {
    if (other == name) return tensor;
  }
  std::string known;
  for (const auto& [other, tensor] : columns) known += concat(known.empty() ? "" : ", ", other);
  throw DataError(concat("the batch has no column '", name, "'; it has: ", known));
}

std::int64_t rows_of(const Columns& columns) {
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
