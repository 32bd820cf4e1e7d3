#include "tandem/rl/policy/normalizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

void require_floats(const Spec& spec) {
  for (const Leaf& leaf : spec.observation) {
    if (leaf.type == ElementType::kFloat32) continue;
    throw ConfigError(
        concat("observations of ", spec.id, " cannot be normalised: '", leaf.name,
               "' is not of float32; switch normalize.observations off, or let the environment return floats"));
  }
}

std::string leaf_name(std::size_t leaf) { return concat("observation.", leaf); }
constexpr const char* kReturnName = "discounted_return";

}  // namespace

NormalizerMoments::NormalizerMoments(const Spec& spec, const NormalizerOptions& options) : discounted_return(1) {
  if (!options.observations) return;
  for (const Leaf& leaf : spec.observation) observation.emplace_back(static_cast<std::size_t>(leaf.count()));
}

void NormalizerMoments::clear() {
  for (RunningMoments& leaf : observation) leaf.clear();
  discounted_return.clear();
}

Normalizers::Normalizers(const Spec& spec, const NormalizerOptions& options)
    : options_(options), moments_(spec, options) {
  if (options.observations) require_floats(spec);
  finish_merge();
}

// Merging is not associative in floating point, hence the caller's fixed order of groups.
void Normalizers::merge(const NormalizerMoments& group) {
  for (std::size_t leaf = 0; leaf < moments_.observation.size(); ++leaf)
    moments_.observation[leaf].merge(group.observation[leaf]);
  moments_.discounted_return.merge(group.discounted_return);
}

// Turns moments into the float32 numbers that normalize() works with. The vectors have their sizes after the first
// call, so later calls take no memory.
void Normalizers::finish_merge() {
  mean_.resize(moments_.observation.size());
  inverse_std_.resize(moments_.observation.size());
  for (std::size_t leaf = 0; leaf < mean_.size(); ++leaf) {
    const RunningMoments& moments = moments_.observation[leaf];
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

float Normalizers::scale_reward(double reward) const {
  if (!options_.rewards) return static_cast<float>(reward);
  return static_cast<float>(std::clamp(reward * reward_scale_, -options_.clip_reward, options_.clip_reward));
}

std::pair<at::Tensor, at::Tensor> Normalizers::mean_and_std(std::size_t leaf) const {
  const at::Tensor inverse = at::tensor(inverse_std_[leaf]);
  return {at::tensor(mean_[leaf]), inverse.reciprocal()};
}

// One tensor a leaf and one for the return, where they are in use.
std::vector<std::pair<std::string, at::Tensor>> Normalizers::state() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (std::size_t leaf = 0; leaf < moments_.observation.size(); ++leaf) {
    all.emplace_back(leaf_name(leaf), at::tensor(moments_.observation[leaf].numbers(), at::kDouble));
  }
  if (options_.rewards) all.emplace_back(kReturnName, at::tensor(moments_.discounted_return.numbers(), at::kDouble));
  return all;
}

// Reads each moment that is in use and then has finish_merge() derive all else.
void Normalizers::load(const std::vector<std::pair<std::string, at::Tensor>>& state) {
  const auto read = [&](const std::string& name, RunningMoments& into) {
    for (const auto& [other, tensor] : state) {
      if (other != name) continue;
      const auto expected = static_cast<std::int64_t>(1 + 2 * into.size());
      if (tensor.scalar_type() != at::kDouble || tensor.numel() != expected) {
        throw CheckpointError(concat("the normaliser '", name, "' has ", tensor.numel(),
                                     " numbers in the checkpoint, expected ", expected));
      }
      const at::Tensor numbers = tensor.contiguous();
      into.set_numbers({numbers.const_data_ptr<double>(), static_cast<std::size_t>(expected)});
      return;
    }
    throw CheckpointError(concat("the checkpoint has no normaliser '", name, "'"));
  };
  for (std::size_t leaf = 0; leaf < moments_.observation.size(); ++leaf)
    read(leaf_name(leaf), moments_.observation[leaf]);
  if (options_.rewards) read(kReturnName, moments_.discounted_return);
  finish_merge();
}

}  // namespace tandem::rl
