#include "tandem/learner/loss_fault.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <cmath>
#include <optional>
#include <vector>

#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

// The square of a larger number is beyond float32.
constexpr double kLargest = 1.8e19;
// Parameters of a training that goes well are much smaller.
constexpr double kDiverged = 1e6;

// The element of largest magnitude of a tensor, or the first that is not finite.
struct Extreme {
  double magnitude = -1;  // infinite for what is not finite
  double value = 0;
  std::int64_t at = 0;  // among all elements
};

std::optional<Extreme> extreme_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) return std::nullopt;
  const at::Tensor flat = tensor.detach().to(at::kCPU, at::kDouble).flatten();
  const at::Tensor bad = flat.isfinite().logical_not();
  const at::Tensor magnitude = bad.any().item<bool>() ? bad.to(at::kDouble) : flat.abs();
  const auto at = magnitude.argmax().item<std::int64_t>();  // the first of equal ones
  const auto value = flat[at].item<double>();
  return Extreme{.magnitude = std::isfinite(value) ? std::abs(value) : HUGE_VAL, .value = value, .at = at};
}

// The first part that is not finite, with those that are.
std::string about_parts(const LossParts& parts) {
  std::string first, others;
  for (const LossPart& part : parts) {
    if (part.name == nullptr) continue;
    if (first.empty() && !std::isfinite(part.value)) {
      first = concat("Its part '", part.name, "' is ", part.value);
    } else {
      others += concat(others.empty() ? "" : ", ", part.name, " ", part.value);
    }
  }
  if (first.empty()) return "";
  return concat(first, others.empty() ? "" : concat(" (", others, ")"), ". ");
}

// What the rows of a minibatch say about a loss of them.
struct RowsVerdict {
  std::string text;
  bool are_the_cause = false;
};

// The columns' valid rows of the minibatch, gathered. The first element that is not finite counts most, then the
// largest.
RowsVerdict about_rows(const LossFault& fault) {
  const ShardRows& rows = fault.rows;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < rows.valid_rows; ++i) chosen.push_back(rows.row(i));
  if (chosen.empty()) return {};
  Extreme worst;
  std::string where;
  for (const auto& [name, column] : rows.columns) {
    const at::Tensor mine = column.index_select(0, at::tensor(chosen, at::kLong).to(column.device()));
    const std::optional<Extreme> its = extreme_of(mine);
    if (!its || its->magnitude <= worst.magnitude) continue;
    worst = *its;
    const std::int64_t elements = mine.numel() / mine.size(0);
    const std::int64_t row = chosen[static_cast<std::size_t>(worst.at / elements)];
    const std::string row_name = fault.name_of_row ? fault.name_of_row(rows.shard, row) : "";
    where = concat("column '", name, "' in row ", row, elements > 1 ? concat(", element ", worst.at % elements) : "",
                   " of the shard", row_name.empty() ? "" : concat(" (", row_name, ")"));
  }
  if (where.empty()) return {};
  const bool is_finite = std::isfinite(worst.magnitude);
  if (is_finite && worst.magnitude <= kLargest)
    return {.text = concat("What it was computed from is finite, at most ", worst.magnitude, ". ")};
  return {.text = concat("Of what it was computed from, ", where, " is ", worst.value,
                         is_finite ? ", whose square is beyond float32. " : ". "),
          .are_the_cause = true};
}

std::string about_parameters(const torch::nn::Module& module) {
  Extreme worst;
  std::string name;
  for (const auto& parameter : module.named_parameters()) {
    const std::optional<Extreme> its = extreme_of(parameter.value());
    if (!its || its->magnitude <= worst.magnitude) continue;
    worst = *its;
    name = parameter.key();
  }
  if (name.empty()) return "";
  const char* diverged = "the training has diverged; a smaller learning rate or gradient clipping usually helps";
  if (!std::isfinite(worst.magnitude)) return concat("The parameter '", name, "' is not finite: ", diverged);
  if (worst.magnitude > kDiverged)
    return concat("The largest parameter is ", worst.value, ", of '", name, "': ", diverged);
  return concat("The parameters are at most ", worst.magnitude,
                ", so the loss itself makes it: a division by zero, the ",
                "logarithm of zero, or a number beyond the range of its dtype");
}

}  // namespace

std::string why_not_finite(const LossFault& fault, const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  const RowsVerdict rows = about_rows(fault);
  // Where what came in is the cause, parameters need not be looked at.
  return concat(about_parts(fault.parts), rows.text,
                rows.are_the_cause ? "Mend it where it is made" : about_parameters(module));
}

}  // namespace tandem::learner
