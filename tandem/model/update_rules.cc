#include <ATen/ATen.h>

#include <cmath>

#include "tandem/base/check.h"
#include "tandem/model/optimizer_state.h"

namespace tandem::model {
namespace {

// Adam's and RMSprop's gaps between parameters would become 0 / 0 without it.
constexpr const char* kEpsRange = "above 0 (with 0, an element whose gradient was always zero becomes NaN)";

// Reports each number of a rule that is out of its range. `where` names the parameter group.
struct RangeCheck {
  const std::string& where;
  std::vector<std::string>& faults;

  // Negated comparisons also catch NaN.
  void at_least_zero(const char* name, double value) const {
    report(value >= 0 && std::isfinite(value), name, value, "at least 0");
  }
  void above_zero(const char* name, double value) const {
    report(value > 0 && std::isfinite(value), name, value, kEpsRange);
  }
  void below_one(const char* name, double value) const { report(value >= 0 && value < 1, name, value, "in [0, 1)"); }
  void report(bool fine, const char* name, double value, const char* range) const {
    if (!fine) faults.push_back(concat("optimizer, ", where, ": ", name, " is ", value, "; it must be ", range));
  }
};

void check_numbers(const AdamOptions& o, const RangeCheck& check) {
  check.below_one("beta1", o.beta1);
  check.below_one("beta2", o.beta2);
  check.above_zero("eps", o.eps);
}

void check_numbers(const SgdOptions& o, const RangeCheck& check) {
  check.at_least_zero("momentum", o.momentum);
  check.report(std::isfinite(o.dampening), "dampening", o.dampening, "finite");
  if (o.kind != SgdOptions::Momentum::kNesterov) return;
  check.report(o.momentum > 0, "momentum", o.momentum, "above 0 for Nesterov's kind");
  check.report(o.dampening == 0, "dampening", o.dampening, "0 for Nesterov's kind");
}

void check_numbers(const RmspropOptions& o, const RangeCheck& check) {
  check.report(o.alpha >= 0 && o.alpha <= 1, "alpha", o.alpha, "in [0, 1]");
  check.above_zero("eps", o.eps);
  check.at_least_zero("momentum", o.momentum);
}

// torch's fused kernels take the step from a tensor, memory.step, which the caller has set.
void update_adam(const AdamOptions& o, double lr, RuleMemory& memory, Stretch& s) {
  constexpr bool kAmsgrad = false, kMaximize = false;
  if (o.decay == AdamOptions::Decay::kDecoupled) {
    at::_fused_adamw_(s.values, s.gradients, s.moments[0], s.moments[1], {}, memory.step, lr, o.beta1, o.beta2,
                      o.weight_decay, o.eps, kAmsgrad, kMaximize);
  } else {
    at::_fused_adam_(s.values, s.gradients, s.moments[0], s.moments[1], {}, memory.step, lr, o.beta1, o.beta2,
                     o.weight_decay, o.eps, kAmsgrad, kMaximize);
  }
}

// In its first step the gradient becomes the momentum, whatever the dampening is. Where another group has a momentum,
// the buffer has memory for it, which the kernel refuses for a group without.
void update_sgd(const SgdOptions& o, double lr, std::int64_t step, Stretch& s) {
  const at::TensorList momentum = o.momentum > 0 ? at::TensorList(s.moments[0]) : at::TensorList();
  at::_fused_sgd_(s.values, s.gradients, momentum, o.weight_decay, o.momentum, lr, o.dampening,
                  o.kind == SgdOptions::Momentum::kNesterov, /*maximize=*/false, /*is_first_step=*/step == 1);
}

// torch.optim.RMSprop, not centered, on whole stretches. The decayed gradient goes into the scaled copy.
void update_rmsprop(const RmspropOptions& o, double lr, RuleMemory& memory, Stretch& s) {
  at::Tensor &value = s.values[0], &gradient = s.gradients[0], &square = s.moments[0][0];
  if (o.weight_decay != 0) gradient.add_(value, o.weight_decay);
  square.mul_(o.alpha).addcmul_(gradient, gradient, 1 - o.alpha);
  at::Tensor denominator = memory.scratch.narrow(0, 0, value.numel());
  at::sqrt_out(denominator, square).add_(o.eps);
  if (o.momentum > 0) {
    s.moments[1][0].mul_(o.momentum).addcdiv_(gradient, denominator);
    value.add_(s.moments[1][0], -lr);
  } else {
    value.addcdiv_(gradient, denominator, -lr);
  }
}

// Reads the rows' moments, changes them and writes them back; the moments of all other rows do not decay.
void update_rows_adam(const AdamOptions& o, double lr, std::int64_t step, const at::Tensor& rows,
                      const at::Tensor& gradient, at::Tensor& values, std::array<at::Tensor, 2>& moments) {
  // torch/optim/_functional.py: sparse_adam.
  const at::Tensor first = moments[0].index_select(0, rows), second = moments[1].index_select(0, rows);
  first.add_(gradient.sub(first).mul_(1 - o.beta1));
  second.add_(gradient.square().sub_(second).mul_(1 - o.beta2));
  moments[0].index_copy_(0, rows, first);
  moments[1].index_copy_(0, rows, second);
  const auto count = static_cast<double>(step);
  const double size = lr * std::sqrt(1 - std::pow(o.beta2, count)) / (1 - std::pow(o.beta1, count));
  const at::Tensor change = first.div(second.sqrt().add_(o.eps)).mul_(-size);
  values.index_copy_(0, rows, values.index_select(0, rows).add_(change));
}

}  // namespace

void check_rule(const OptimizerOptions& options, const std::string& where, std::vector<std::string>& faults) {
  const RangeCheck check{where, faults};
  const auto all = [&check](const auto& o) {
    check.at_least_zero("lr", o.lr);
    check_numbers(o, check);
    check.at_least_zero("weight_decay", o.weight_decay);
  };
  std::visit(all, options);
}

// A rule fits when rows that a gradient does not name need no update.
void check_sparse_rule(const OptimizerOptions& options, const std::string& parameter,
                       std::vector<std::string>& faults) {
  const std::string start = concat("parameter \"", parameter, "\" has sparse gradients: ");
  if (const auto* adam = std::get_if<AdamOptions>(&options); adam && adam->weight_decay != 0) {
    faults.push_back(start +
                     "Adam updates only the rows in use and cannot decay the others; set weight_decay 0 for its "
                     "group, or sparse(false)");
  }
  if (const auto* sgd = std::get_if<SgdOptions>(&options); sgd && (sgd->momentum != 0 || sgd->weight_decay != 0)) {
    faults.push_back(start +
                     "SGD takes them without momentum and weight_decay only; set both to 0 for its group, or "
                     "sparse(false)");
  }
  if (std::holds_alternative<RmspropOptions>(options))
    faults.push_back(start + "RMSprop cannot take them; use Adam or SGD, or sparse(false)");
}

double lr_of(const OptimizerOptions& options) {
  return std::visit([](const auto& o) { return o.lr; }, options);
}

std::vector<std::string> moment_names(const OptimizerOptions& options) {
  using Names = std::vector<std::string>;
  if (std::holds_alternative<AdamOptions>(options)) return {"exp_avg", "exp_avg_sq"};
  if (const auto* sgd = std::get_if<SgdOptions>(&options))
    return sgd->momentum > 0 ? Names{"momentum_buffer"} : Names{};
  const bool has_momentum = std::get<RmspropOptions>(options).momentum > 0;
  return has_momentum ? Names{"square_avg", "momentum_buffer"} : Names{"square_avg"};
}

// Adam's bias correction depends on the count of steps; SGD's momentum on whether there was a step; RMSprop on neither.
bool same_update(const OptimizerOptions& options, std::int64_t a, std::int64_t b) {
  if (std::holds_alternative<AdamOptions>(options)) return a == b;  // the bias correction
  if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
    return sgd->momentum == 0 || (a == 0) == (b == 0);  // the first gradient becomes the momentum
  }
  return true;
}

bool needs_scratch(const OptimizerOptions& options) { return std::holds_alternative<RmspropOptions>(options); }

bool writes_gradients(const OptimizerOptions& options) {
  const auto* rmsprop = std::get_if<RmspropOptions>(&options);
  return rmsprop && rmsprop->weight_decay != 0;
}

void update(const OptimizerOptions& options, double lr, std::int64_t step, RuleMemory& memory, Stretch& stretch) {
  if (const auto* adam = std::get_if<AdamOptions>(&options)) {
    update_adam(*adam, lr, memory, stretch);
  } else if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
    update_sgd(*sgd, lr, step, stretch);
  } else {
    update_rmsprop(std::get<RmspropOptions>(options), lr, memory, stretch);
  }
}

void update_rows(const OptimizerOptions& options, double lr, std::int64_t step, const at::Tensor& gradient,
                 at::Tensor& values, std::array<at::Tensor, 2>& moments) {
  const at::Tensor rows = gradient.indices()[0], changes = gradient.values();
  TANDEM_CHECK(!std::holds_alternative<RmspropOptions>(options), "RMSprop with sparse gradients");
  if (const auto* adam = std::get_if<AdamOptions>(&options))
    return update_rows_adam(*adam, lr, step, rows, changes, values, moments);
  values.index_copy_(0, rows, values.index_select(0, rows).add_(changes, -lr));
}

}  // namespace tandem::model
