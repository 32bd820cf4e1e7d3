#include "tandem/model/distribution/distribution.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {

at::Tensor Distribution::entropy_estimate(at::Generator generator) const {
  return -draw_with_gradient(std::move(generator)).log_prob;
}

Draw Distribution::draw_with_gradient(at::Generator) const {
  throw ConfigError(concat(family(), " has no differentiable draws: a discrete choice has no derivative. Use sample() ",
                           "with log_prob() (score function), or a continuous family"));
}

}  // namespace tandem::model
