#include "tandem/rl/policy/acting_net.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::rl {

ActingNet::ActingNet(const Encoder& encoder) : encoder_(&encoder), sizes_{encoder.size()} {}

std::size_t ActingNet::add(ActingStep step, std::int64_t size) {
  TANDEM_CHECK(step.in <= steps_.size() && step.also <= steps_.size(), "step ", steps_.size(), " takes values ",
               step.in, " and ", step.also);
  steps_.push_back(std::move(step));
  sizes_.push_back(size);
  return steps_.size();
}

std::size_t ActingNet::add(const Mlp& mlp, std::size_t in) {
  if (!mlp.norms().empty()) throw ConfigError("a network that acts with layer norms is not exported");
  for (std::size_t i = 0; i < mlp.layers().size(); ++i) {
    const torch::nn::Linear& layer = mlp.layers()[i];
    in = add({.kind = ActingStep::Kind::kLinear, .in = in, .weight = layer->weight, .bias = layer->bias},
             layer->weight.size(0));
    if (mlp.is_activated(i))
      in = add({.kind = ActingStep::Kind::kActivate, .in = in, .activation = mlp.options().activation}, size(in));
  }
  return in;
}

const RecurrentCell* ActingNet::cell() const {
  for (const ActingStep& step : steps_) {
    if (step.kind == ActingStep::Kind::kRemember) return step.cell;
  }
  return nullptr;
}

}  // namespace tandem::rl
