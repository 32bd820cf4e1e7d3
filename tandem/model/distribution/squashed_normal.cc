#include "tandem/model/distribution/squashed_normal.h"

#include <ATen/ATen.h>

#include <limits>
#include <numbers>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

// tanh, kept off +-1 so that the inverse is finite.
at::Tensor squash(const at::Tensor& u) {
  const double limit = SquashedNormal::limit(u.scalar_type());
  return u.tanh().clamp(-limit, limit);
}

}  // namespace

double SquashedNormal::limit(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1 - std::numeric_limits<double>::epsilon() / 2
                              : 1 - static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
}

at::Tensor SquashedNormal::sample(at::Generator generator) const {
  return squash(normal_.sample(std::move(generator)));
}

at::Tensor SquashedNormal::mode() const { return squash(normal_.mode()); }

// log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), summed over the elements.
at::Tensor SquashedNormal::log_prob_before_squashing(const at::Tensor& u) const {
  const at::Tensor log_slope = (std::numbers::ln2 - u - at::softplus(u * -2)) * 2;
  return normal_.log_prob(u) - log_slope.sum(-1);
}

at::Tensor SquashedNormal::log_prob(const at::Tensor& actions) const {
  if (actions.sizes() != normal_.mean().sizes() || !actions.is_floating_point()) {
    throw ConfigError(concat("SquashedNormal: actions ", actions.scalar_type(), " ", actions.sizes(),
                             " do not fit mean ", normal_.mean().scalar_type(), " ", normal_.mean().sizes()));
  }
  const double bound = limit(normal_.mean().scalar_type());
  return log_prob_before_squashing(actions.clamp(-bound, bound).atanh());
}

at::Tensor SquashedNormal::entropy() const {
  throw ConfigError(
      "SquashedNormal has no closed form of the entropy: use entropy_estimate(generator), or set the entropy "
      "coefficient to 0");
}

at::Tensor SquashedNormal::kl(const Distribution& other) const {
  const auto* that = dynamic_cast<const SquashedNormal*>(&other);
  if (that == nullptr) throw ConfigError(concat("KL divergence of a SquashedNormal and a ", other.family()));
  return normal_.kl_to(that->normal_);
}

Draw SquashedNormal::draw_with_gradient(at::Generator generator) const {
  const at::Tensor u = normal_.draw_actions(std::move(generator));
  return {squash(u), log_prob_before_squashing(u)};
}

}  // namespace tandem::model
