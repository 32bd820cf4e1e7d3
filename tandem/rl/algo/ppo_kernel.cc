#include "tandem/rl/algo/ppo_kernel.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

// What the rows of a minibatch share.
struct Coefficients {
  double clip, entropy, value, value_clip;  // value_clip < 0: none
  double mean, scale;                       // of advantages
  double inverse_rows;
};

// The policy's part of one row: adds its numbers and returns the derivative of the mean loss with respect to log
// pi(a|s).
double surrogate(double log_prob, double old_log_prob, double raw_advantage, const Coefficients& c, PpoSums& sums) {
  const double log_ratio = log_prob - old_log_prob, ratio = std::exp(log_ratio);
  const double advantage = (raw_advantage - c.mean) * c.scale;
  const double clipped = std::clamp(ratio, 1 - c.clip, 1 + c.clip);
  const double plain = advantage * ratio, limited = advantage * clipped;
  sums.policy_loss -= std::min(plain, limited);
  sums.approx_kl += ratio - 1 - log_ratio;
  sums.clipped += std::abs(ratio - 1) > c.clip ? 1 : 0;
  // Where the clipped term is the smaller one, the ratio does not count.
  return limited < plain ? 0.0 : -advantage * ratio * c.inverse_rows;
}

// The value's part of one row: adds the loss and returns its derivative.
double value_part(double value, double old_value, double target, const Coefficients& c, PpoSums& sums) {
  const double error = value - target, plain = error * error, change = value - old_value;
  if (c.value_clip >= 0 && std::abs(change) > c.value_clip) {
    const double near = old_value + std::clamp(change, -c.value_clip, c.value_clip);
    const double limited = (near - target) * (near - target);
    sums.value_loss += std::max(plain, limited);
    if (limited > plain) return 0;
  } else {
    sums.value_loss += plain;
  }
  return 2 * error * c.value * c.inverse_rows;
}

// Gradients of the loss, shaped as what they belong to.
struct Gradients {
  at::Tensor first;    // logits or mean
  at::Tensor log_std;  // of normal actions
  at::Tensor value;
};

template <typename T>
void categorical_rows(const at::Tensor& logits, const PpoRows& rows, const Coefficients& c, Gradients& gradients,
                      PpoSums& sums) {
  const std::int64_t n = logits.size(1);
  const T* logit = logits.const_data_ptr<T>();
  T* gradient = gradients.first.data_ptr<T>();
  const auto* action = rows.action.const_data_ptr<std::int64_t>();
  const T *old = rows.log_prob.const_data_ptr<T>(), *advantage = rows.advantage.const_data_ptr<T>();
  for (std::int64_t row = 0; row < logits.size(0); ++row, logit += n, gradient += n) {
    double top = logit[0], total = 0, entropy = 0;
    for (std::int64_t i = 1; i < n; ++i) top = std::max<double>(top, logit[i]);
    for (std::int64_t i = 0; i < n; ++i) total += std::exp(logit[i] - top);
    const double log_total = top + std::log(total);
    for (std::int64_t i = 0; i < n; ++i) {
      const double log_p = logit[i] - log_total;
      entropy -= std::exp(log_p) * log_p;
    }
    const double of_log_prob = surrogate(logit[action[row]] - log_total, old[row], advantage[row], c, sums);
    sums.entropy += entropy;
    for (std::int64_t i = 0; i < n; ++i) {
      const double log_p = logit[i] - log_total, p = std::exp(log_p);
      const double of_entropy = c.entropy * c.inverse_rows * p * (log_p + entropy);
      gradient[i] = static_cast<T>(of_log_prob * ((i == action[row] ? 1.0 : 0.0) - p) + of_entropy);
    }
  }
}

template <typename T>
void normal_rows(const at::Tensor& mean, const at::Tensor& log_std, const PpoRows& rows, const Coefficients& c,
                 Gradients& gradients, PpoSums& sums) {
  const std::int64_t size = mean.size(1);
  const T *mu = mean.const_data_ptr<T>(), *deviation = log_std.const_data_ptr<T>(),
          *action = rows.action.const_data_ptr<T>();
  T* gradient = gradients.first.data_ptr<T>();
  const T *old = rows.log_prob.const_data_ptr<T>(), *advantage = rows.advantage.const_data_ptr<T>();
  std::vector<double> inverse(static_cast<std::size_t>(size)), of_log_std(static_cast<std::size_t>(size), 0.0);
  double log_norm = 0, entropy = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    inverse[static_cast<std::size_t>(i)] = std::exp(-static_cast<double>(deviation[i]));
    log_norm += deviation[i] + 0.5 * std::log(2 * std::numbers::pi);
    entropy += deviation[i] + 0.5 * (1 + std::log(2 * std::numbers::pi));
  }
  for (std::int64_t row = 0; row < mean.size(0); ++row, mu += size, action += size, gradient += size) {
    double log_prob = -log_norm;
    for (std::int64_t i = 0; i < size; ++i) {
      const double z = (action[i] - mu[i]) * inverse[static_cast<std::size_t>(i)];
      log_prob -= 0.5 * z * z;
    }
    const double of_log_prob = surrogate(log_prob, old[row], advantage[row], c, sums);
    for (std::int64_t i = 0; i < size; ++i) {
      const double z = (action[i] - mu[i]) * inverse[static_cast<std::size_t>(i)];
      gradient[i] = static_cast<T>(of_log_prob * z * inverse[static_cast<std::size_t>(i)]);
      of_log_std[static_cast<std::size_t>(i)] += of_log_prob * (z * z - 1);
    }
  }
  sums.entropy += entropy * static_cast<double>(mean.size(0));
  T* out = gradients.log_std.data_ptr<T>();
  for (std::int64_t i = 0; i < size; ++i) out[i] = static_cast<T>(of_log_std[static_cast<std::size_t>(i)] - c.entropy);
}

template <typename T>
void value_rows(const at::Tensor& value, const PpoRows& rows, const Coefficients& c, Gradients& gradients,
                PpoSums& sums) {
  const T *now = value.const_data_ptr<T>(), *old = rows.value.const_data_ptr<T>(),
          *target = rows.value_target.const_data_ptr<T>();
  T* gradient = gradients.value.data_ptr<T>();
  for (std::int64_t row = 0; row < value.size(0); ++row) {
    gradient[row] = static_cast<T>(value_part(now[row], old[row], target[row], c, sums));
  }
}

// Hands the gradients, which were computed with the loss, to autograd.
struct PpoLoss : torch::autograd::Function<PpoLoss> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& first,
                            const std::optional<at::Tensor>& log_std, const at::Tensor& value,
                            const Gradients& gradients, double loss) {
    context->save_for_backward({gradients.first, gradients.log_std, gradients.value});
    return at::scalar_tensor(loss, value.options().requires_grad(false));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& given) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto scaled = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient * given[0] : at::Tensor();
    };
    return {scaled(saved[0]), scaled(saved[1]), scaled(saved[2]), at::Tensor(), at::Tensor()};
  }
};

template <typename T>
at::Tensor loss_of(ActionFamily family, const PolicyOutput& output, const PpoRows& rows, const PpoOptions& options,
                   const PpoMinibatch& minibatch, PpoSums& sums) {
  const at::Tensor first = output.action_parameters[0].contiguous(), value = output.value.contiguous();
  const at::Tensor log_std = family == ActionFamily::kNormal ? output.action_parameters[1].contiguous() : at::Tensor();
  const auto count = static_cast<double>(value.size(0));
  const Coefficients c{.clip = minibatch.clip_range,
                       .entropy = options.entropy_coef,
                       .value = options.value_coef,
                       .value_clip = options.clip_range_value.value_or(-1.0),
                       .mean = minibatch.advantage_mean,
                       .scale = minibatch.advantage_scale,
                       .inverse_rows = 1 / count};
  Gradients gradients{.first = at::empty_like(first), .log_std = {}, .value = at::empty_like(value)};
  PpoSums mine{.rows = count};
  if (family == ActionFamily::kNormal) {
    gradients.log_std = at::empty_like(log_std);
    normal_rows<T>(first, log_std, rows, c, gradients, mine);
  } else {
    categorical_rows<T>(first, rows, c, gradients, mine);
  }
  value_rows<T>(value, rows, c, gradients, mine);
  sums.add(mine);
  const double loss = (mine.policy_loss + c.value * mine.value_loss - c.entropy * mine.entropy) / count;
  const auto maybe_log_std = log_std.defined() ? std::optional<at::Tensor>(log_std) : std::nullopt;
  return PpoLoss::apply(first, maybe_log_std, value, gradients, loss);
}

}  // namespace

bool has_ppo_kernel(const ActorCritic& policy, const PolicyOutput& output, const PpoRows& rows) {
  const bool normal = policy.family() == ActionFamily::kNormal;
  if (!normal && policy.family() != ActionFamily::kCategorical) return false;
  if (rows.action_mask.defined() || dynamic_cast<const MlpPolicy*>(&policy) == nullptr) return false;
  if (normal && output.action_parameters[1].dim() != 1) return false;
  const at::ScalarType dtype = output.value.scalar_type();
  return output.value.is_cpu() && (dtype == at::kFloat || dtype == at::kDouble) &&
         rows.log_prob.scalar_type() == dtype && output.action_parameters[0].scalar_type() == dtype &&
         (!normal || rows.action.scalar_type() == dtype);
}

at::Tensor ppo_kernel_loss(ActionFamily family, const PolicyOutput& output, const PpoRows& rows,
                           const PpoOptions& options, const PpoMinibatch& minibatch, PpoSums& sums) {
  return output.value.scalar_type() == at::kDouble ? loss_of<double>(family, output, rows, options, minibatch, sums)
                                                   : loss_of<float>(family, output, rows, options, minibatch, sums);
}

}  // namespace tandem::rl
