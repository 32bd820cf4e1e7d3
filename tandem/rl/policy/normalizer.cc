#include "tandem/rl/policy/normalizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

void require_floats(const Spec& spec) {
  for (const Leaf& leaf : spec.observation) {
    if (is_float(leaf.type)) continue;
    throw ConfigError(
        concat("observations of ", spec.id, " cannot be normalised: '", leaf.name,
               "' is not of floats; switch normalize.observations off, or let the environment return floats"));
  }
}

}  // namespace

// With n vectors in all and `delta` between the two means, the mean moves by delta's share of the other's vectors, and
// the sums of squares grow by what the means differ.
void RunningMoments::merge(const RunningMoments& other) {
  TANDEM_CHECK(other.size() == size(), "moments of ", other.size(), " into ", size(), " elements");
  if (other.count_ == 0) return;
  const double total = count_ + other.count_;
  for (std::size_t i = 0; i < size(); ++i) {
    const double delta = other.mean_[i] - mean_[i];
    mean_[i] += delta * (other.count_ / total);
    m2_[i] += other.m2_[i] + delta * delta * (count_ * other.count_ / total);
  }
  count_ = total;
}

void RunningMoments::clear() {
  count_ = 0;
  std::fill(mean_.begin(), mean_.end(), 0.0);
  std::fill(m2_.begin(), m2_.end(), 0.0);
}

void RunningMoments::append_numbers(std::vector<double>& to) const {
  to.push_back(count_);
  to.insert(to.end(), mean_.begin(), mean_.end());
  to.insert(to.end(), m2_.begin(), m2_.end());
}

void RunningMoments::set_numbers(std::span<const double> numbers) {
  TANDEM_CHECK(numbers.size() == 1 + 2 * size(), numbers.size(), " numbers for ", size(), " elements");
  count_ = numbers[0];
  std::copy_n(numbers.begin() + 1, size(), mean_.begin());
  std::copy_n(numbers.begin() + 1 + static_cast<std::ptrdiff_t>(size()), size(), m2_.begin());
}

NormalizerMoments::NormalizerMoments(const Spec& spec, const NormalizerOptions& options) : discounted_return(1) {
  if (!options.observations) return;
  for (const Leaf& leaf : spec.observation) observation.emplace_back(static_cast<std::size_t>(leaf.count()));
}

void NormalizerMoments::clear() {
  for (RunningMoments& leaf : observation) leaf.clear();
  discounted_return.clear();
}

void NormalizerMoments::append_numbers(std::vector<double>& to) const {
  for (const RunningMoments& leaf : observation) leaf.append_numbers(to);
  discounted_return.append_numbers(to);
}

Normalizers::Normalizers(const Spec& spec, const NormalizerOptions& options)
    : options_(options), moments_(spec, options) {
  if (options.observations) require_floats(spec);
  for (const Leaf& leaf : spec.observation) is_wide_.push_back(leaf.type == ElementType::kFloat64);
  finish_merge();
}

// Merging is not associative in floating point, hence the caller's fixed order of groups.
void Normalizers::merge(const NormalizerMoments& group) {
  for (std::size_t leaf = 0; leaf < moments_.observation.size(); ++leaf)
    moments_.observation[leaf].merge(group.observation[leaf]);
  moments_.discounted_return.merge(group.discounted_return);
}

// Turns moments into the numbers that normalize() works with. The vectors have their sizes after the first
// call, so later calls take no memory.
void Normalizers::finish_merge() {
  mean_.resize(moments_.observation.size());
  inverse_std_.resize(moments_.observation.size());
  wide_mean_.resize(moments_.observation.size());
  wide_inverse_std_.resize(moments_.observation.size());
  for (std::size_t leaf = 0; leaf < mean_.size(); ++leaf) {
    const RunningMoments& moments = moments_.observation[leaf];
    if (is_wide_[leaf]) {
      wide_mean_[leaf].assign(moments.mean().begin(), moments.mean().end());
      wide_inverse_std_[leaf].resize(moments.size());
      for (std::size_t i = 0; i < moments.size(); ++i)
        wide_inverse_std_[leaf][i] = 1 / std::sqrt(moments.variance(i) + options_.epsilon);
      continue;
    }
    mean_[leaf].resize(moments.size());
    inverse_std_[leaf].resize(moments.size());
    for (std::size_t i = 0; i < moments.size(); ++i) {
      mean_[leaf][i] = static_cast<float>(moments.mean()[i]);
      inverse_std_[leaf][i] = static_cast<float>(1 / std::sqrt(moments.variance(i) + options_.epsilon));
    }
  }
  if (options_.rewards) reward_scale_ = 1 / std::sqrt(moments_.discounted_return.variance(0) + options_.epsilon);
}

void Normalizers::normalize(std::size_t leaf, const float* raw, float* out, std::int64_t rows) const {
  const std::vector<float>&mean = mean_[leaf], &inverse = inverse_std_[leaf];
  const auto clip = static_cast<float>(options_.clip_observation);
  const std::size_t size = mean.size();
  for (std::int64_t row = 0; row < rows; ++row, raw += size, out += size) {
    for (std::size_t i = 0; i < size; ++i) out[i] = std::clamp((raw[i] - mean[i]) * inverse[i], -clip, clip);
  }
}

// The cut comes before the narrowing, so nothing is beyond float32 then.
void Normalizers::normalize(std::size_t leaf, const double* raw, float* out, std::int64_t rows) const {
  TANDEM_CHECK(is_wide_[leaf], "leaf ", leaf, " is normalised as one of float64");
  const std::vector<double>&mean = wide_mean_[leaf], &inverse = wide_inverse_std_[leaf];
  const double clip = options_.clip_observation;
  const std::size_t size = mean.size();
  for (std::int64_t row = 0; row < rows; ++row, raw += size, out += size) {
    for (std::size_t i = 0; i < size; ++i)
      out[i] = static_cast<float>(std::clamp((raw[i] - mean[i]) * inverse[i], -clip, clip));
  }
}

float Normalizers::scale_reward(double reward) const {
  if (!options_.rewards) return static_cast<float>(reward);
  return static_cast<float>(std::clamp(reward * reward_scale_, -options_.clip_reward, options_.clip_reward));
}

// Calls `work` with the name and the moments of everything that is normalised.
template <typename Self, typename Work>
void Normalizers::for_each_in_use(Self& self, const Work& work) {
  for (std::size_t leaf = 0; leaf < self.moments_.observation.size(); ++leaf)
    work(concat("observation.", leaf), self.moments_.observation[leaf]);
  if (self.options_.rewards) work("discounted_return", self.moments_.discounted_return);
}

std::pair<at::Tensor, at::Tensor> Normalizers::mean_and_inverse_std(std::size_t leaf) const {
  if (is_wide_[leaf])
    return {at::tensor(wide_mean_[leaf], at::kDouble), at::tensor(wide_inverse_std_[leaf], at::kDouble)};
  return {at::tensor(mean_[leaf]), at::tensor(inverse_std_[leaf])};
}

std::pair<at::Tensor, at::Tensor> Normalizers::mean_and_std(std::size_t leaf) const {
  const auto [mean, inverse] = mean_and_inverse_std(leaf);
  return {mean, inverse.reciprocal()};
}

// One tensor a leaf and one for the return, where they are in use.
std::vector<std::pair<std::string, at::Tensor>> Normalizers::state() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for_each_in_use(*this, [&](const std::string& name, const RunningMoments& moments) {
    std::vector<double> numbers;
    moments.append_numbers(numbers);
    all.emplace_back(name, at::tensor(numbers, at::kDouble));
  });
  return all;
}

// Reads each moment that is in use and then has finish_merge() derive all else.
void Normalizers::load(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  for_each_in_use(*this, [&](const std::string& name, RunningMoments& into) {
    const auto found = std::ranges::find(state, name, &std::pair<std::string, at::Tensor>::first);
    if (found == state.end()) throw CheckpointError(concat("the checkpoint has no normaliser '", name, "'"));
    const auto expected = static_cast<std::int64_t>(1 + 2 * into.size());
    if (found->second.scalar_type() != at::kDouble || found->second.numel() != expected) {
      throw CheckpointError(concat("the normaliser '", name, "' has ", found->second.numel(),
                                   " numbers in the checkpoint, expected ", expected));
    }
    const at::Tensor numbers = found->second.contiguous();
    into.set_numbers({numbers.const_data_ptr<double>(), static_cast<std::size_t>(expected)});
  });
  finish_merge();
}

}  // namespace tandem::rl
