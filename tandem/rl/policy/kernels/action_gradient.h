// rl/policy/action_gradient.h: what a policy thinks of the actions that were taken, and the way back, without autograd,
// a block of samples (block_kernels.h) at a time.
//
// For categorical actions (of one or several choices, masks included) and for normal ones whose log_std is a parameter.
// The distributions of model/ are the definition.
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tandem/rl/policy/kernels/block_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

template <typename Real>
class ActionGradient {
 public:
  [[nodiscard]] static bool has(ActionFamily family) {
    return family == ActionFamily::kCategorical || family == ActionFamily::kMultiCategorical ||
           family == ActionFamily::kNormal;
  }

  /// Throws ConfigError when this processor does not have `set`. The family is one that it has().
  ActionGradient(const MlpPolicy& policy, InstructionSet set);

  /// Takes log_std as it is now; its gradient begins at zero.
  void begin();
  /// Numbers of an action: choices, or components.
  [[nodiscard]] std::int64_t action_size() const { return static_cast<std::int64_t>(options_.size()); }
  /// What was taken in sample `i` of the next block: action_size() options, or components.
  void take(std::int64_t i, const std::int64_t* options);
  void take(std::int64_t i, const Real* components);
  /// Which options sample `i` of the next block had: head_size bytes, non-zero where allowed. For all samples of a
  /// block or for none.
  void allow(std::int64_t i, const std::uint8_t* mask);

  /// From the policy's head for `samples` samples, [head_size, kBlock]: fills log_prob() and entropy(), and leaves in
  /// `head` what backward() needs.
  void forward(Real* head, std::int64_t samples);
  [[nodiscard]] const Real* log_prob() const { return log_prob_.data(); }  // [kBlock]
  [[nodiscard]] const Real* entropy() const { return entropy_.data(); }    // [kBlock]
  /// Turns `head` into derivatives with respect to what it was before forward(), of a loss whose derivatives with
  /// respect to log_prob and entropy are given, [kBlock] each, zero from the samples to their next multiple of kPanel.
  void backward(Real* head, const Real* of_log_prob, const Real* of_entropy);
  /// Overwrites log_std's .grad, where there is one.
  void finish();

 private:
  template <typename Work>
  void for_choices(Real* head, const Work& work);
  void normal_forward(Real* head);
  void normal_backward(Real* head, const Real* of_log_prob, const Real* of_entropy);

  const BlockKernels<Real>& kernels_;
  const at::Tensor log_std_;           // undefined for discrete actions
  std::vector<std::int64_t> options_;  // of each choice; 1 for a component
  std::vector<Real> inverse_deviation_;
  double log_norm_ = 0, normal_entropy_ = 0;  // of a normal action, but for z
  std::int64_t samples_ = 0;                  // of the block, rounded up to panels
  enum class Masks { kNone, kGiven } masks_ = Masks::kNone;
  AlignedArray<Real> taken_;           // [action_size, kBlock]
  AlignedArray<Real> allowed_;         // [head_size, kBlock]
  AlignedArray<Real> choice_entropy_;  // [action_size, kBlock]
  AlignedArray<Real> log_prob_, entropy_;
  AlignedArray<Real> of_log_std_;   // [kBlock]
  AlignedArray<Real> log_std_sum_;  // [action_size, kPanel]
};

extern template class ActionGradient<float>;
extern template class ActionGradient<double>;

}  // namespace tandem::rl
