// model/distribution.h: probability distributions over actions, the part of torch.distributions that LibTorch lacks.
//
//   Categorical            one of n choices, from logits                    categorical.h
//   MultiCategorical       several choices made together                    categorical.h
//   Normal                 a real vector with independent elements          normal.h
//   SquashedNormal         tanh of a Normal: a vector within (-1, 1)        normal.h
//   StateDependentNoise    gSDE: exploration that stays smooth over time    normal.h
//
// A distribution is a batch of independent ones. Its parameters are tensors [..., size]; the leading dimensions "..."
// are the batch. Whatever is a number for a whole action (log_prob, entropy, kl) has the shape of the batch: elements
// of one action are summed. Everything except sample() and mode() is differentiable with autograd, in float32 and
// float64, and built of torch operations only, on the device of the parameters.
//
// Threads: immutable after construction, apart from the generator that a caller passes in.
// Errors: ConfigError for parameters or actions of a wrong shape or dtype, naming both shapes.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {

/// Actions together with their log-probability [...]; both carry gradients.
struct Draw {
  at::Tensor actions;
  at::Tensor log_prob;
};

class Distribution {
 public:
  virtual ~Distribution() = default;

  /// "Categorical", "Normal", ...: for messages, and to tell families apart.
  [[nodiscard]] virtual const char* family() const = 0;
  /// The tensors that it was made from.
  [[nodiscard]] virtual std::vector<at::Tensor> parameters() const = 0;

  /// One action a row, without gradients. Equal states of `generator` give equal actions. It lives on the device of the
  /// parameters, or on the CPU, where the numbers are drawn then (model/shard_random.h).
  [[nodiscard]] virtual at::Tensor sample(at::Generator generator) const = 0;
  /// The deterministic action: the most probable choice, or the mean (of a SquashedNormal its tanh).
  [[nodiscard]] virtual at::Tensor mode() const = 0;

  /// Natural logarithm of the probability (discrete) or of the density (continuous) of each action.
  [[nodiscard]] virtual at::Tensor log_prob(const at::Tensor& actions) const = 0;

  /// Whether entropy() has a closed form.
  [[nodiscard]] virtual bool has_entropy() const { return true; }
  /// Entropy in nats. Throws ConfigError where there is no closed form (SquashedNormal): use entropy_estimate() there,
  /// which has a variance.
  [[nodiscard]] virtual at::Tensor entropy() const = 0;
  /// A one-sample Monte Carlo estimate of the entropy: -log_prob of fresh draw_with_gradient() actions. Unbiased, and
  /// so is its gradient. -log_prob of actions drawn earlier is not a substitute: its expected gradient is zero.
  [[nodiscard]] at::Tensor entropy_estimate(at::Generator generator) const {
    return -draw_with_gradient(std::move(generator)).log_prob;
  }

  /// entropy() or, where there is no closed form, entropy_estimate(), which draws from `generator`: for bonuses.
  [[nodiscard]] at::Tensor entropy_or_estimate(at::Generator generator) const {
    return has_entropy() ? entropy() : entropy_estimate(std::move(generator));
  }

  /// Kullback-Leibler divergence KL(this || other). Infinite where `other` excludes what this one allows.
  /// Throws ConfigError when `other` is of another family.
  [[nodiscard]] virtual at::Tensor kl(const Distribution& other) const = 0;

  /// Draws through which gradients flow to the parameters (the reparameterisation trick), for continuous families.
  /// Throws ConfigError for discrete ones.
  [[nodiscard]] virtual Draw draw_with_gradient(at::Generator) const {
    throw ConfigError(concat(family(), " has no differentiable draws: a discrete choice has no derivative. Use ",
                             "sample() with log_prob() (score function), or a continuous family"));
  }

 protected:
  /// `other` as an `Own`, which this one is. Throws ConfigError when it is of another family.
  template <typename Own>
  [[nodiscard]] const Own& of_this_family(const Distribution& other) const {
    if (std::string_view(family()) != other.family())
      throw ConfigError(concat("KL divergence of a ", family(), " and a ", other.family()));
    return dynamic_cast<const Own&>(other);
  }
};

}  // namespace tandem::model
