#include "tandem/rl/algo/dqn/return_passes.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

namespace tandem::rl {
namespace {

MlpEnsemble<float>::Options ensemble_options(const ReturnPasses::Options& options) {
  return {.max_rows = options.max_rows, .passes = options.passes, .set = options.set, .compute = options.compute};
}

std::optional<NoisyDraw> draw_of(const Mlp* net, const Mlp* deviation) {
  if (net == nullptr || deviation == nullptr) return {};
  return std::optional<NoisyDraw>(std::in_place, *net, *deviation);
}

}  // namespace

// Memory that a form of returns does not need stays empty.
ReturnPasses::ReturnPasses(const ReturnNetwork& network, const DqnOptions& of, const Options& options)
    : of_(of),
      numbers_(of.numbers()),
      actions_(network.actions()),
      encoded_(network.encoder(), options),
      net_draw_(draw_of(&network.net(), network.net_deviation())),
      advantage_draw_(draw_of(network.advantage(), network.advantage_deviation())),
      net_({net_draw_ ? &net_draw_->net() : &network.net()}, ensemble_options(options)),
      support_(network.support().defined() ? network.support().const_data_ptr<float>() : nullptr),
      means_(static_cast<std::size_t>(options.max_rows * actions_)) {
  const auto all = static_cast<std::size_t>(options.max_rows * actions_ * numbers_);
  if (network.advantage() != nullptr) {
    const Mlp* its = advantage_draw_ ? &advantage_draw_->net() : network.advantage();
    advantage_.emplace(std::vector<const Mlp*>{its}, ensemble_options(options));
    returns_.resize(all);
    of_value_.resize(static_cast<std::size_t>(options.max_rows * numbers_));
    if (encoded_.has_torso()) of_features_.resize(static_cast<std::size_t>(options.max_rows * net_.features()));
  }
  if (of.returns != DqnReturn::kCategorical) return;
  softmax_.emplace(numbers_, options.set);
  shares_.resize(all);
}

void ReturnPasses::draw(const ReturnNoise& noise) {
  if (net_draw_) net_draw_->take(noise.net);
  if (advantage_draw_) advantage_draw_->take(noise.advantage);
}

// Advantages count as differences from their mean.
const float* ReturnPasses::forward(const Observation& observation) {
  const std::int64_t rows = rows_ = observation.front().size(0);
  const float* features = encoded_.of(observation);
  const float* first = net_.forward({.first = features}, rows);
  if (!advantage_) return told_ = first;
  const float* advantage = advantage_->forward({.first = features}, rows);
  const auto scale = 1.0F / static_cast<float>(actions_);
  for (std::int64_t row = 0; row < rows; ++row, first += numbers_) {
    const float* its = advantage + row * actions_ * numbers_;
    float* to = returns_.data() + row * actions_ * numbers_;
    for (std::int64_t n = 0; n < numbers_; ++n) {
      float sum = 0;
      for (std::int64_t a = 0; a < actions_; ++a) sum += its[a * numbers_ + n];
      for (std::int64_t a = 0; a < actions_; ++a) to[a * numbers_ + n] = first[n] + its[a * numbers_ + n] - sum * scale;
    }
  }
  return told_ = returns_.data();
}

// One number of an action is its mean already. Sums run in the order of the atoms, so that bits do not depend on rows.
const float* ReturnPasses::means() {
  const std::int64_t pairs = rows_ * actions_;
  if (of_.returns == DqnReturn::kMean) return told_;
  if (softmax_) softmax_->probabilities(told_, pairs, shares_.data());
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float* its = (softmax_ ? shares_.data() : told_) + i * numbers_;
    float sum = 0;
    for (std::int64_t n = 0; n < numbers_; ++n) sum += softmax_ ? its[n] * support_[n] : its[n];
    means_[static_cast<std::size_t>(i)] = softmax_ ? sum : sum / static_cast<float>(numbers_);
  }
  return means_.data();
}

// The torso comes last, with the derivatives by the features that both streams see.
void ReturnPasses::backward(float* of_returns) {
  encoded_.backward(backward_streams(of_returns));
  if (net_draw_) net_draw_->give_gradients();
  if (advantage_draw_) advantage_draw_->give_gradients();
}

// The value stands in the return of each action, and an advantage in those of all, less its part of the mean. Returns
// the derivatives with respect to the features where a torso wants them.
const float* ReturnPasses::backward_streams(float* of_returns) {
  const InputGradient wanted = encoded_.has_torso() ? InputGradient::kWhole : InputGradient::kNone;
  const float* of_features = nullptr;
  if (advantage_) {
    const auto scale = 1.0F / static_cast<float>(actions_);
    for (std::int64_t row = 0; row < rows_; ++row) {
      float* its = of_returns + row * actions_ * numbers_;
      float* value = of_value_.data() + row * numbers_;
      for (std::int64_t n = 0; n < numbers_; ++n) {
        float sum = 0;
        for (std::int64_t a = 0; a < actions_; ++a) sum += its[a * numbers_ + n];
        for (std::int64_t a = 0; a < actions_; ++a) its[a * numbers_ + n] -= sum * scale;
        value[n] = sum;
      }
    }
    of_features = advantage_->backward(of_returns, ParameterGradients::kOverwrite, wanted);
    of_returns = of_value_.data();
  }
  const float* by_net = net_.backward(of_returns, ParameterGradients::kOverwrite, wanted);
  if (of_features == nullptr) return by_net;
  for (std::int64_t i = 0; i < rows_ * net_.features(); ++i)
    of_features_[static_cast<std::size_t>(i)] = of_features[i] + by_net[i];
  return of_features_.data();
}

}  // namespace tandem::rl
