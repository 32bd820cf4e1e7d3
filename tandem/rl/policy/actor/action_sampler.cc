#include "tandem/rl/policy/actor/action_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tandem/model/distribution/row_sampling.h"

namespace tandem::rl {

ActionSampler::ActionSampler(const Spec& spec, ActionFamily family, const ActorOptions& options, std::int64_t rows,
                             std::int64_t features, Philox random)
    : space_(spec.action),
      family_(family),
      options_(options),
      rows_(rows),
      features_(features),
      size_(action_elements(spec.action)),
      random_(random) {
  if (family != ActionFamily::kStateDependentNoise) return;
  variance_.resize(static_cast<std::size_t>(features * size_));
  matrices_.resize(static_cast<std::size_t>(rows * features * size_));
  held_.assign(static_cast<std::size_t>(rows), 0);
}

void ActionSampler::sample(const ActionInputs& inputs, const Decisions& out) {
  Philox* random = options_.acting == Acting::kSample ? &random_ : nullptr;
  switch (family_) {
    case ActionFamily::kCategorical:
      return model::sample_categorical(
          {.logits = inputs.head, .mask = inputs.mask, .rows = rows_, .n = std::get<Discrete>(space_).n}, random,
          out.discrete, out.log_prob);
    case ActionFamily::kMultiCategorical:
      return model::sample_multi_categorical(
          {.logits = inputs.head, .mask = inputs.mask, .rows = rows_, .nvec = std::get<MultiDiscrete>(space_).n},
          random, out.discrete, out.log_prob);
    case ActionFamily::kNormal:
    case ActionFamily::kSquashedNormal: {
      auto* draw = family_ == ActionFamily::kNormal ? model::sample_normal : model::sample_squashed_normal;
      return draw({.mean = inputs.head,
                   .log_std = inputs.log_std,
                   .rows = rows_,
                   .size = size_,
                   .log_std_stride = inputs.log_std_stride},
                  random, out.box, out.log_prob);
    }
    case ActionFamily::kStateDependentNoise:
      hold_noise(inputs);
      return model::sample_with_noise({.mean = inputs.head,
                                       .latent = inputs.latent,
                                       .variance = variance_.data(),
                                       .matrices = random != nullptr ? matrices_.data() : nullptr,
                                       .rows = rows_,
                                       .size = size_,
                                       .features = features_},
                                      out.box, out.log_prob);
  }
}

// Draws the matrices that are due and counts the step. The variance is computed anew each step, since log_std may have
// changed; it is as small as one row of the network's last layer. A mode needs no matrix.
void ActionSampler::hold_noise(const ActionInputs& inputs) {
  const std::int64_t count = features_ * size_;
  for (std::int64_t i = 0; i < count; ++i) variance_[static_cast<std::size_t>(i)] = std::exp(2 * inputs.log_std[i]);
  if (options_.acting == Acting::kMode) return;
  const std::int32_t hold =
      options_.noise_hold_steps > 0 ? options_.noise_hold_steps : std::numeric_limits<std::int32_t>::max();
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::int32_t& held = held_[static_cast<std::size_t>(row)];
    if (held == 0) {
      model::draw_noise_matrix(inputs.log_std, count, random_, matrices_.data() + row * count);
      held = hold;
    }
    --held;
  }
}

void ActionSampler::renew() { std::fill(held_.begin(), held_.end(), 0); }

void ActionSampler::renew(std::span<const std::uint8_t> done) {
  for (std::size_t row = 0; row < held_.size(); ++row) {
    if (done[row] != 0) held_[row] = 0;
  }
}

// The layout: the random stream, the number of floats of matrices, the matrices, and how long each row's is held. For
// other families there are no matrices and no rows.
void ActionSampler::save(StateWriter& out) const {
  out.put_bytes(random_.save());
  out.put(static_cast<std::uint64_t>(matrices_.size()));
  for (const float value : matrices_) out.put(value);
  for (const std::int32_t value : held_) out.put(value);
}

void ActionSampler::load(StateReader& in) {
  random_.load(in.get_bytes());
  in.expect(static_cast<std::uint64_t>(matrices_.size()), "its size of exploration noise");
  for (float& value : matrices_) value = in.get<float>();
  for (std::int32_t& value : held_) value = in.get<std::int32_t>();
}

}  // namespace tandem::rl
