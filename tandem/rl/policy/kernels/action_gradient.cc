#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/mlp_gradient.h"

namespace tandem::rl {
namespace {

// The number of options of each choice; a component of a normal action counts as a choice of one.
std::vector<std::int64_t> options_of(const ActionSpace& space) {
  if (!std::holds_alternative<Box>(space)) return choices_of(space);
  return std::vector<std::int64_t>(static_cast<std::size_t>(action_elements(space)), 1);
}

}  // namespace

template <typename Real>
ActionGradient<Real>::ActionGradient(const ActorCritic& policy, const at::Tensor& log_std, InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      log_std_(log_std),
      options_(options_of(policy.spec().action)),
      inverse_deviation_(options_.size()),
      taken_(action_size() * kBlock),
      allowed_(policy.spec().has_action_mask ? head_size(policy.spec().action) * kBlock : 0),
      choice_entropy_(action_size() * kBlock),
      log_prob_(kBlock),
      entropy_(kBlock),
      of_log_std_(kBlock),
      log_std_sum_(action_size() * kPanel) {
  if (policy.family() == ActionFamily::kStateDependentNoise) state_dependent_.emplace(log_std_, kernels_);
  if (policy.family() == ActionFamily::kSquashedNormal) squashed_.emplace(action_size());
}

// Computes what all samples share: 1 / deviation, the constant of log_prob and the whole entropy, of a normal action.
template <typename Real>
void ActionGradient<Real>::begin() {
  masks_ = Masks::kNone;
  if (!log_std_.defined()) return;
  if (state_dependent_) return state_dependent_->begin();
  const Real* log_std = log_std_.const_data_ptr<Real>();
  log_norm_ = normal_entropy_ = 0;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const double each = log_std[i];
    inverse_deviation_[i] = static_cast<Real>(std::exp(-each));
    log_norm_ += each + 0.5 * std::log(2 * std::numbers::pi);
    normal_entropy_ += each + 0.5 * (1 + std::log(2 * std::numbers::pi));
  }
  std::fill_n(log_std_sum_.data(), action_size() * kPanel, Real{0});
}

template <typename Real>
void ActionGradient<Real>::take(std::int64_t i, const std::int64_t* options) {
  for (std::int64_t c = 0; c < action_size(); ++c) taken_.data()[c * kBlock + i] = static_cast<Real>(options[c]);
}

template <typename Real>
void ActionGradient<Real>::draw(std::int64_t count) {
  if (squashed_) squashed_->draw(count);
}

template <typename Real>
void ActionGradient<Real>::take(std::int64_t i, const Real* components, std::int64_t draw) {
  if (squashed_) return squashed_->take(i, components, draw, taken_.data());
  for (std::int64_t c = 0; c < action_size(); ++c) taken_.data()[c * kBlock + i] = components[c];
}

// Masks become numbers, 1 or 0, so that the loops can multiply by them.
template <typename Real>
void ActionGradient<Real>::allow(std::int64_t i, const std::uint8_t* mask) {
  masks_ = Masks::kGiven;
  std::int64_t option = 0;
  for (const std::int64_t count : options_) {
    for (const std::int64_t end = option + count; option < end; ++option)
      allowed_.data()[option * kBlock + i] = mask[option] != 0 ? Real{1} : Real{0};
  }
}

template <typename Real>
template <typename Work>
void ActionGradient<Real>::for_choices(Real* head, const Work& work) {
  std::int64_t first = 0;  // option of the choice, among all
  for (std::size_t c = 0; c < options_.size(); ++c) {
    const auto place = static_cast<std::int64_t>(c) * kBlock;
    work(ChoiceBlock<Real>{.options = options_[c],
                           .samples = samples_,
                           .logits = head + first * kBlock,
                           .allowed = masks_ == Masks::kGiven ? allowed_.data() + first * kBlock : nullptr,
                           .taken = taken_.data() + place,
                           .log_prob = log_prob_.data(),
                           .entropy = choice_entropy_.data() + place});
    first += options_[c];
  }
}

// The choices of an action are independent: their log-probabilities and entropies add up.
template <typename Real>
void ActionGradient<Real>::forward(Real* head, const Real* latent, std::int64_t samples) {
  samples_ = padded(samples);
  std::fill_n(log_prob_.data(), samples_, Real{0});
  if (state_dependent_)
    return state_dependent_->forward(head, latent, taken_.data(), samples_, log_prob_.data(), entropy_.data());
  if (log_std_.defined()) return normal_forward(head);
  std::fill_n(entropy_.data(), samples_, Real{0});
  for_choices(head, [this](const ChoiceBlock<Real>& choice) {
    kernels_.choose(choice);
    for (std::int64_t s = 0; s < samples_; ++s) entropy_.data()[s] += choice.entropy[s];
  });
}

template <typename Real>
void ActionGradient<Real>::backward(Real* head, const Real* of_log_prob, const Real* of_entropy) {
  if (state_dependent_) return state_dependent_->backward(head, of_log_prob, of_entropy);
  if (log_std_.defined()) return normal_backward(head, of_log_prob, of_entropy);
  for_choices(head, [&](const ChoiceBlock<Real>& choice) { kernels_.choose_back(choice, of_log_prob, of_entropy); });
}

// Component by component: the head's means become z, and log_prob the sum of -z^2 / 2. Then the constant is taken off.
template <typename Real>
void ActionGradient<Real>::normal_forward(Real* head) {
  std::fill_n(entropy_.data(), samples_, static_cast<Real>(normal_entropy_));
  if (squashed_) squashed_->forward(head, inverse_deviation_.data(), samples_, log_prob_.data(), entropy_.data());
  for (std::int64_t i = 0; i < action_size(); ++i) {
    kernels_.normal({.samples = samples_,
                     .inverse_deviation = inverse_deviation_[static_cast<std::size_t>(i)],
                     .mean = head + i * kBlock,
                     .taken = taken_.data() + i * kBlock,
                     .log_prob = log_prob_.data()});
  }
  const Real log_norm = static_cast<Real>(log_norm_);
  for (std::int64_t s = 0; s < samples_; ++s) log_prob_.data()[s] -= log_norm;
}

template <typename Real>
void ActionGradient<Real>::normal_backward(Real* head, const Real* of_log_prob, const Real* of_entropy) {
  for (std::int64_t i = 0; i < action_size(); ++i) {
    kernels_.normal_back({.samples = samples_,
                          .inverse_deviation = inverse_deviation_[static_cast<std::size_t>(i)],
                          .mean = head + i * kBlock,
                          .taken = taken_.data() + i * kBlock,
                          .log_prob = log_prob_.data()},
                         of_log_prob, of_log_std_.data());
    // The entropy of a normal action is the sum of log_std and a constant, so its derivative is 1.
    for (std::int64_t s = 0; s < samples_; ++s) of_log_std_.data()[s] += of_entropy[s];
    if (squashed_) squashed_->add_back(i, samples_, of_entropy, head + i * kBlock, of_log_std_.data());
    kernels_.add_columns(of_log_std_.data(), 1, samples_, log_std_sum_.data() + i * kPanel);
  }
}

template <typename Real>
void ActionGradient<Real>::finish() {
  if (!log_std_.defined()) return;
  if (state_dependent_) return state_dependent_->finish();
  write_lane_sums(log_std_sum_.data(), action_size(), gradient_memory<Real>(log_std_));
}

template class ActionGradient<float>;
template class ActionGradient<double>;

}  // namespace tandem::rl
