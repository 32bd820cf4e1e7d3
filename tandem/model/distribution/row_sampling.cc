#include "tandem/model/distribution/row_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/distribution/normal.h"

namespace tandem::model {
namespace {

const float kHalfLogTwoPiF = static_cast<float>(0.5 * std::log(2 * std::numbers::pi));

struct Choice {
  std::int64_t action;
  float log_prob;
};

// Throws the error that explains why no option of a row could be chosen: a mask without options, or a logit that is NaN
// or infinite, or -inf for all options. A single logit of -inf only excludes its option.
[[noreturn]] void fail_choice(const float* logits, const std::uint8_t* mask, std::int64_t n, std::int64_t row) {
  const bool some_allowed = mask == nullptr || std::any_of(mask, mask + n, [](std::uint8_t m) { return m != 0; });
  if (!some_allowed) {
    throw EnvError(concat("the action mask of row ", row, " allows none of ", n,
                          " choices; an environment must always leave one"));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if ((mask != nullptr && mask[i] == 0) || logits[i] < std::numeric_limits<float>::infinity()) continue;
    throw RunError(concat("the policy's logit ", i, " of row ", row, " is ", logits[i],
                          ": it has diverged; a smaller learning rate or gradient clipping usually helps"));
  }
  throw RunError(concat("the policy's logits of row ", row, " are -inf for all choices",
                        mask == nullptr ? "" : " that the action mask allows", "; it must leave one"));
}

// The largest allowed logit is subtracted first, as log_softmax does, so that the sum lies in [1, n].
Choice choose(const float* logits, const std::uint8_t* mask, std::int64_t n, std::int64_t row, Philox* random) {
  const auto allowed = [&](std::int64_t i) { return mask == nullptr || mask[i] != 0; };
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (allowed(i) && (best < 0 || logits[i] > logits[best])) best = i;
  }
  if (best < 0) fail_choice(logits, mask, n, row);
  const float largest = logits[best];
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (allowed(i)) sum += std::exp(logits[i] - largest);
  }
  if (!(sum >= 1 && sum <= static_cast<float>(n))) fail_choice(logits, mask, n, row);  // NaN and infinity end here

  std::int64_t action = best;
  if (random != nullptr) {
    // Inverse of the cumulative distribution. The same terms are added in the same order, so the last one reaches
    // `sum`.
    const double threshold = random->uniform_double() * static_cast<double>(sum);
    float cumulative = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (!allowed(i)) continue;
      cumulative += std::exp(logits[i] - largest);
      action = i;
      if (static_cast<double>(cumulative) > threshold) break;
    }
  }
  return {action, logits[action] - largest - std::log(sum)};
}

float standard_normal(Philox* random) { return random == nullptr ? 0.0F : static_cast<float>(random->normal()); }

// The caller's draw of an element, or one of the stream's.
float draw_of(const NormalRows& from, std::int64_t row, std::int64_t i, Philox* random) {
  return from.draws != nullptr ? from.draws[row * from.size + i] : standard_normal(random);
}

// Fills rows of `size` elements: `element(row, i, action)` sets one of them and returns its part of the
// log-probability. One look at the sum finds any NaN or infinity among the parameters of a row.
template <typename Element>
void draw_rows(std::int64_t rows, std::int64_t size, float* actions, float* log_prob, const Element& element) {
  for (std::int64_t row = 0; row < rows; ++row, actions += size) {
    float total = 0;
    for (std::int64_t i = 0; i < size; ++i) total += element(row, i, actions[i]);
    if (!std::isfinite(total)) {
      throw RunError(concat("the policy's action of row ", row, " has log-probability ", total,
                            ": mean or standard deviation is not finite, it has diverged; a smaller learning rate or "
                            "gradient clipping usually helps"));
    }
    log_prob[row] = total;
  }
}

}  // namespace

void sample_categorical(const CategoricalRows& from, Philox* random, std::int64_t* actions, float* log_prob) {
  const float* logits = from.logits;
  const std::uint8_t* mask = from.mask;
  for (std::int64_t row = 0; row < from.rows; ++row) {
    float total = 0;
    for (const std::int64_t n : from.nvec) {
      const Choice choice = choose(logits, mask, n, row, random);
      *actions++ = choice.action;
      total += choice.log_prob;
      logits += n;
      if (mask != nullptr) mask += n;
    }
    log_prob[row] = total;
  }
}

void sample_normal(const NormalRows& from, Philox* random, float* actions, float* log_prob) {
  draw_rows(from.rows, from.size, actions, log_prob, [&](std::int64_t row, std::int64_t i, float& action) {
    const float mean = from.mean[row * from.size + i], log_std = from.log_std[row * from.log_std_stride + i];
    action = mean + std::exp(log_std) * draw_of(from, row, i, random);
    // From the rounded action and not from the draw: it is what log_prob() of the stored action will see.
    const float z = (action - mean) * std::exp(-log_std);
    return -0.5F * z * z - log_std - kHalfLogTwoPiF;
  });
}

// The formulas of SquashedNormal. log_prob is that of the stored action, from its inverse, and not of the draw.
void sample_squashed_normal(const NormalRows& from, Philox* random, float* actions, float* log_prob) {
  const auto limit = static_cast<float>(SquashedNormal::limit(at::kFloat));
  draw_rows(from.rows, from.size, actions, log_prob, [&](std::int64_t row, std::int64_t i, float& action) {
    const float mean = from.mean[row * from.size + i], log_std = from.log_std[row * from.log_std_stride + i];
    action = std::clamp(std::tanh(mean + std::exp(log_std) * draw_of(from, row, i, random)), -limit, limit);
    const float u = std::atanh(action);
    const float z = (u - mean) * std::exp(-log_std);
    const float softplus = std::max(-2 * u, 0.0F) + std::log1p(std::exp(-2 * std::fabs(u)));
    return -0.5F * z * z - log_std - kHalfLogTwoPiF - 2 * (std::numbers::ln2_v<float> - u - softplus);
  });
}

// The formulas of StateDependentNoise: the noise is the latent row times the row's matrix, and the variance is that
// over all matrices.
void sample_with_noise(const NoiseRows& from, float* actions, float* log_prob) {
  draw_rows(from.rows, from.size, actions, log_prob, [&](std::int64_t row, std::int64_t i, float& action) {
    const float mean = from.mean[row * from.size + i];
    const float* latent = from.latent + row * from.features;
    const float* matrix = from.matrices == nullptr ? nullptr : from.matrices + row * from.features * from.size;
    float noise = 0, variance = 0;
    for (std::int64_t f = 0; f < from.features; ++f) {
      if (matrix != nullptr) noise += latent[f] * matrix[f * from.size + i];
      variance += latent[f] * latent[f] * from.variance[f * from.size + i];
    }
    variance += static_cast<float>(StateDependentNoise::kVarianceFloor);
    action = mean + noise;
    const float shift = action - mean;
    return -0.5F * (shift * shift / variance + std::log(variance)) - kHalfLogTwoPiF;
  });
}

void draw_noise_matrix(const float* log_std, std::int64_t count, Philox& random, float* matrix) {
  for (std::int64_t i = 0; i < count; ++i) matrix[i] = std::exp(log_std[i]) * standard_normal(&random);
}

}  // namespace tandem::model
