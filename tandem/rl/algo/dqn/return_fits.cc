#include "tandem/rl/algo/dqn/return_fits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::rl {
namespace {

// Four quantiles at once, which every processor of the architectures can. Compilers make no vectors of the selections
// themselves, since comparisons of floats may trap.
constexpr std::size_t kLanes = 4;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

Lanes all_lanes(float number) { return Lanes{number, number, number, number}; }

Lanes lanes_at(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

void put_lanes(Lanes lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

}  // namespace

ReturnFit::ReturnFit(const DqnOptions& options, const float* support, std::int64_t rows, InstructionSet set)
    : returns_(options.returns),
      numbers_(options.numbers()),
      support_(support),
      of_said_(static_cast<std::size_t>(rows * numbers_)) {
  const auto all = static_cast<std::size_t>(rows * numbers_), width = static_cast<std::size_t>(numbers_);
  for (auto* each : {&loss_, &error_, &mean_}) each->resize(static_cast<std::size_t>(rows));
  if (returns_ == DqnReturn::kCategorical) {
    softmax_.emplace(numbers_, set);
    for (auto* each : {&logarithms_, &shares_, &next_shares_}) each->resize(all);
    wanted_.resize(width);
  }
  if (returns_ != DqnReturn::kQuantiles) return;
  for (auto* each : {&said_, &middle_, &slope_, &each_}) each->resize((width + kLanes - 1) / kLanes * kLanes);
  for (std::size_t i = 0; i < width; ++i) middle_[i] = (static_cast<float>(i) + 0.5F) / static_cast<float>(numbers_);
}

void ReturnFit::run(const ReturnRows& rows) {
  switch (returns_) {
    case DqnReturn::kMean:
      return fit_mean(rows);
    case DqnReturn::kCategorical:
      return fit_categorical(rows);
    case DqnReturn::kQuantiles:
      return fit_quantiles(rows);
  }
}

// The Huber loss with threshold 1 and its slope.
void ReturnFit::fit_mean(const ReturnRows& rows) {
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float error = rows.said[i] - (rows.reward[i] + rows.discount[i] * rows.next[i]), size = std::abs(error);
    of_said_[at] = std::clamp(error, -1.0F, 1.0F);
    loss_[at] = size <= 1 ? 0.5F * error * error : size - 0.5F;
    error_[at] = size;
    mean_[at] = rows.said[i];
  }
}

// As rl::project(): what falls between two values is shared out by nearness.
void ReturnFit::project(float reward, float discount, std::int64_t row) {
  const float least = support_[0], most = support_[numbers_ - 1];
  const auto last = static_cast<float>(numbers_ - 1);
  const float width = (most - least) / last;
  const float* share = next_shares_.data() + row * numbers_;
  std::fill(wanted_.begin(), wanted_.end(), 0.0F);
  for (std::int64_t n = 0; n < numbers_; ++n) {
    const float moved = std::clamp(reward + discount * support_[n], least, most);
    const float place = std::clamp((moved - least) / width, 0.0F, last), below = std::floor(place);
    const auto at = static_cast<std::size_t>(below), next = std::min(at + 1, wanted_.size() - 1);
    wanted_[at] += share[n] * (1 - (place - below));
    wanted_[next] += share[n] * (place - below);
  }
}

// The slope of the cross entropy with respect to a logit is its probability less the one that is wanted, whose sum is 1
// but for rounding.
void ReturnFit::fit_categorical(const ReturnRows& rows) {
  softmax_->run(rows.said, rows.rows, logarithms_.data(), shares_.data());
  softmax_->probabilities(rows.next, rows.rows, next_shares_.data());
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    project(rows.reward[i], rows.discount[i], i);
    const float *share = shares_.data() + i * numbers_, *logarithm = logarithms_.data() + i * numbers_;
    float* slope = of_said_.data() + i * numbers_;
    float loss = 0, mean = 0, total = 0;
    for (std::int64_t n = 0; n < numbers_; ++n) {
      const float wanted = wanted_[static_cast<std::size_t>(n)];
      loss -= wanted * logarithm[n];
      mean += share[n] * support_[n];
      total += wanted;
    }
    for (std::int64_t n = 0; n < numbers_; ++n) slope[n] = total * share[n] - wanted_[static_cast<std::size_t>(n)];
    const auto at = static_cast<std::size_t>(i);
    loss_[at] = error_[at] = loss;
    mean_[at] = mean;
  }
}

// A sample of the target against all quantiles. With c the error cut to -1 .. 1 the Huber loss is c (error - c / 2) and
// its slope c; both are tilted by the middle of the quantile where the error is positive, and by the rest else.
void ReturnFit::add_sample(float wanted) {
  const Lanes one = all_lanes(1), zero = all_lanes(0), target = all_lanes(wanted);
  for (std::size_t n = 0; n < said_.size(); n += kLanes) {
    const Lanes error = target - lanes_at(&said_[n]), middle = lanes_at(&middle_[n]);
    const Lanes low = error < -one ? -one : error, cut = low > one ? one : low;
    const Lanes pull = (error < zero ? one - middle : middle) * cut;
    put_lanes(lanes_at(&slope_[n]) - pull, &slope_[n]);
    put_lanes(lanes_at(&each_[n]) + pull * (error - cut * all_lanes(0.5F)), &each_[n]);
  }
}

void ReturnFit::fit_quantiles(const ReturnRows& rows) {
  const float scale = 1.0F / static_cast<float>(numbers_);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const float *said = rows.said + i * numbers_, *next = rows.next + i * numbers_;
    std::copy_n(said, numbers_, said_.begin());
    for (auto* sums : {&slope_, &each_}) std::fill(sums->begin(), sums->end(), 0.0F);
    for (std::int64_t n = 0; n < numbers_; ++n) add_sample(rows.reward[i] + rows.discount[i] * next[n]);
    float loss = 0, sum = 0;
    for (std::int64_t n = 0; n < numbers_; ++n) {
      const auto place = static_cast<std::size_t>(n);
      of_said_[static_cast<std::size_t>(i * numbers_ + n)] = slope_[place] * scale;
      loss += each_[place];
      sum += said[n];
    }
    const auto at = static_cast<std::size_t>(i);
    loss_[at] = error_[at] = loss * scale;
    mean_[at] = sum * scale;
  }
}

}  // namespace tandem::rl
