// rl/policy/kernels/choice_divergence.h: KL(reference || policy) of discrete actions, and its derivatives, a block of
// samples at a time beside ActionGradient.
//
//     divergence.refer(i, numbers);                 // for each sample: what the reference's forward pass left
//     divergence.measure(head, samples);            // after ActionGradient::forward()
//     divergence.add(head, weights, samples);       // after ActionGradient::backward()
//
// Numbers of a distribution are the logarithms of its options' probabilities, which ActionGradient::forward() leaves in
// the head; an option that is excluded has -1000. model::Distribution::kl() is the definition.
//
// APPO penalises how far the policy is from its target network; the target runs first and its distributions are kept by
// row. Actions have few options, so these loops are plain, and the sum over the options of a sample is in double,
// whatever `Real` is.
//
// Threads: single-thread.
#pragma once
#include <cmath>
#include <cstdint>

#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

/// `Real`: of the policy's parameters. The choices of an action are independent, so their divergences add up.
template <typename Real>
class ChoiceDivergence {
 public:
  /// `options`: of all choices together.
  explicit ChoiceDivergence(std::int64_t options)
      : options_(options), reference_(options * kBlock), now_(options * kBlock), divergence_(kBlock) {}

  /// Sets the reference of sample `i` of the next block: `options` numbers. They are copied.
  void refer(std::int64_t i, const Real* numbers) {
    for (std::int64_t o = 0; o < options_; ++o) reference_.data()[o * kBlock + i] = numbers[o];
  }

  /// Reads the logarithms of probabilities and leaves them. Then divergence() has a number for each sample.
  void measure(const Real* head, std::int64_t samples) {
    for (std::int64_t s = 0; s < samples; ++s) {
      double sum = 0;
      for (std::int64_t at = s; at < options_ * kBlock; at += kBlock) {
        const double reference = reference_.data()[at], now = head[at];
        sum += std::exp(reference) * (reference - now);
        now_.data()[at] = head[at];
      }
      divergence_.data()[s] = static_cast<Real>(sum);
    }
  }
  /// [kBlock]: never below zero but for rounding; 0 before the first measure().
  [[nodiscard]] const Real* divergence() const { return divergence_.data(); }

  /// Adds to derivatives with respect to the logits those of the divergence, times a weight for each sample: its
  /// derivative is the policy's probability less the reference's.
  void add(Real* head, const Real* weights, std::int64_t samples) const {
    for (std::int64_t s = 0; s < samples; ++s) {
      if (weights[s] == 0) continue;
      for (std::int64_t at = s; at < options_ * kBlock; at += kBlock) {
        const double slope = std::exp(double{now_.data()[at]}) - std::exp(double{reference_.data()[at]});
        head[at] += static_cast<Real>(weights[s] * slope);
      }
    }
  }

 private:
  const std::int64_t options_;
  // [options, kBlock] each, and [kBlock].
  AlignedArray<Real> reference_, now_, divergence_;
};

}  // namespace tandem::rl
