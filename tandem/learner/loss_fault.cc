#include "tandem/learner/loss_fault.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

// The square of a larger number is beyond float32.
constexpr double kLargest = 1.8e19;
// Nothing is learned of numbers that are given in such a scale.
constexpr double kAbsurd = 1e6;
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

// The first element that is not finite, or the largest, of columns of one kind.
struct Worst {
  Extreme extreme;
  std::string where, next_step;

  [[nodiscard]] bool is_finite() const { return std::isfinite(extreme.magnitude); }
  [[nodiscard]] bool is_too_large() const { return extreme.magnitude > kLargest; }  // or not finite
};

// Looks at columns one after the other, and keeps apart what was given to the training.
class Search {
 public:
  explicit Search(const LossFault& fault) : fault_(fault) {}

  // `chosen`: rows of `numbers` in the column or state that they are of; empty: all.
  void look(const std::string& kind, const std::string& name, const at::Tensor& numbers,
            const std::vector<std::int64_t>& chosen) {
    const auto nth = static_cast<std::size_t>(std::ranges::count(looked_at_, name));
    looked_at_.push_back(name);
    const std::optional<Extreme> its = extreme_of(numbers);
    if (!its) return;
    ColumnName called{.text = concat(kind, " '", name, "'")};
    if (fault_.names.column) called = fault_.names.column(name, nth);
    Worst& worst = called.is_given ? given_ : made_;
    if (its->magnitude <= worst.extreme.magnitude) return;
    const std::int64_t dims = called.dims_of_row.value_or(numbers.dim() - 1);
    std::int64_t elements = 1;
    for (std::int64_t dim = numbers.dim() - dims; dim < numbers.dim(); ++dim) elements *= numbers.size(dim);
    const std::int64_t at = its->at / elements, row = chosen.empty() ? at : chosen[static_cast<std::size_t>(at)];
    const std::string row_name = fault_.names.row ? fault_.names.row(fault_.rows.shard, row) : "";
    worst = {.extreme = *its,
             .where = concat(called.text, " in row ", row, elements > 1 ? concat(", element ", its->at % elements) : "",
                             " of the shard", row_name.empty() ? "" : concat(" (", row_name, ")")),
             .next_step = called.next_step};
  }

  [[nodiscard]] const Worst& given() const { return given_; }
  [[nodiscard]] const Worst& made() const { return made_; }

 private:
  const LossFault& fault_;
  std::vector<std::string> looked_at_;
  Worst given_, made_;
};

// The columns' valid rows of the minibatch, gathered, and the states of the whole shard.
RowsVerdict about_rows(const LossFault& fault) {
  const ShardRows& rows = fault.rows;
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < rows.valid_rows; ++i) chosen.push_back(rows.row(i));
  if (chosen.empty()) return {};
  Search search(fault);
  for (const auto& [name, column] : rows.columns)
    search.look("column", name, column.index_select(0, at::tensor(chosen, at::kLong).to(column.device())), chosen);
  for (const auto& [name, state] : rows.states) search.look("state", name, state, {});
  // What was made may be too large because what was given is, so that comes first.
  const Worst &given = search.given(), &made = search.made();
  const bool is_absurd = given.extreme.magnitude > kAbsurd;
  if (!is_absurd && !made.is_too_large()) {
    const double most = std::max(given.extreme.magnitude, made.extreme.magnitude);
    return {.text = most < 0 ? "" : concat("What it was computed from is finite, at most ", most, ". ")};
  }
  const Worst& cause = is_absurd ? given : made;
  return {.text = concat("Of what it was computed from, ", cause.where, " is ", cause.extreme.value,
                         !cause.is_finite()     ? ". "
                         : cause.is_too_large() ? ", whose square is beyond float32. "
                                                : ", and losses and gradients grow with it. ",
                         cause.next_step.empty() ? "Mend it where it is made" : cause.next_step),
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
  return concat(about_parts(fault.parts), rows.text, rows.are_the_cause ? "" : about_parameters(module));
}

std::string absurd_rows(const LossFault& fault) {
  const at::NoGradGuard no_grad;
  const RowsVerdict rows = about_rows(fault);
  return rows.are_the_cause ? rows.text : "";
}

}  // namespace tandem::learner
