#include "tandem/rl/policy/actor/actors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/model/distribution/row_sampling.h"

namespace tandem::rl {
namespace {

// Every step of the environments waits for its actions. The way to a device and back is worth it when a core would be
// busy for longer; this many products take a slow core about a millisecond. The number comes from that arithmetic and
// was not measured.
constexpr std::int64_t kMostProductsOnHost = 10'000'000;

// Whether the copy of the parameters on the CPU is to act: always for a policy that lies there.
bool acts_on_host(const ActorCritic& policy, std::int64_t rows) {
  std::int64_t weights = 0;
  for (const at::Tensor& parameter : policy.parameters()) {
    if (parameter.is_cpu()) return true;
    weights += parameter.numel();
  }
  return weights * rows <= kMostProductsOnHost;
}

}  // namespace

ActionSampler::ActionSampler(const Spec& spec, ActionFamily family, const ActorOptions& options, std::int64_t rows,
                             std::int64_t features, Philox random)
    : choices_(choices_of(spec.action)),
      family_(family),
      options_(options),
      rows_(rows),
      features_(features),
      size_(action_elements(spec.action)),
      random_(random) {
  if (options.noise_correlation > 0) {
    draws_.resize(static_cast<std::size_t>(rows * size_));
    follows_.assign(static_cast<std::size_t>(rows), 0);
  }
  if (family != ActionFamily::kStateDependentNoise) return;
  variance_.resize(static_cast<std::size_t>(features * size_));
  matrices_.resize(static_cast<std::size_t>(rows * features * size_));
  held_.assign(static_cast<std::size_t>(rows), 0);
}

void ActionSampler::sample(const ActionInputs& inputs, const Decisions& out) {
  Philox* random = options_.acting == Acting::kSample ? &random_ : nullptr;
  switch (family_) {
    case ActionFamily::kCategorical:
    case ActionFamily::kMultiCategorical:
      return model::sample_categorical({.logits = inputs.head, .mask = inputs.mask, .rows = rows_, .nvec = choices_},
                                       random, out.discrete, out.log_prob);
    case ActionFamily::kNormal:
    case ActionFamily::kSquashedNormal: {
      auto* draw = family_ == ActionFamily::kNormal ? model::sample_normal : model::sample_squashed_normal;
      return draw({.mean = inputs.head,
                   .log_std = inputs.log_std,
                   .rows = rows_,
                   .size = size_,
                   .log_std_stride = inputs.log_std_stride,
                   .draws = random != nullptr ? correlated_draws() : nullptr},
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

// The deviation stays 1: the variances of both terms add up to that. A row's first draw is a whole one.
const float* ActionSampler::correlated_draws() {
  if (draws_.empty()) return nullptr;
  const float kept = options_.noise_correlation, fresh = std::sqrt(1 - kept * kept);
  float* draw = draws_.data();
  for (std::uint8_t& follows : follows_) {
    for (std::int64_t i = 0; i < size_; ++i, ++draw) {
      const auto drawn = static_cast<float>(random_.normal());
      *draw = follows != 0 ? kept * *draw + fresh * drawn : drawn;
    }
    follows = 1;
  }
  return draws_.data();
}

void ActionSampler::renew() { std::fill(held_.begin(), held_.end(), 0); }

void ActionSampler::renew(std::span<const std::uint8_t> done) {
  for (std::size_t row = 0; row < done.size(); ++row) {
    if (done[row] == 0) continue;
    if (!held_.empty()) held_[row] = 0;
    if (!follows_.empty()) follows_[row] = 0;
  }
}

// The layout: the random stream, the number of floats of matrices, the matrices, and how long each row's is held; then
// correlated draws and whether they count. What a family does not need has no elements.
void ActionSampler::save(StateWriter& out) const {
  out.put_bytes(random_.save());
  out.put(static_cast<std::uint64_t>(matrices_.size()));
  for (const float value : matrices_) out.put(value);
  for (const std::int32_t value : held_) out.put(value);
  for (const float draw : draws_) out.put(draw);
  for (const std::uint8_t follows : follows_) out.put(follows);
}

void ActionSampler::load(StateReader& in) {
  const std::span<const std::byte> stream = in.get_bytes();
  if (stream.size() != Philox::kStateBytes)
    in.fail(concat("its random stream has ", stream.size(), " bytes, as where tensor operations act, and that of an ",
                   "actor in loops has ", Philox::kStateBytes,
                   ": the run had `kernel: off`, or a build began it that had ",
                   "no loops for this policy. With `kernel: off` in its config.yaml a policy that remembers acts by ",
                   "operations as before"));
  random_.load(stream);
  in.expect(static_cast<std::uint64_t>(matrices_.size()), "its size of exploration noise");
  for (float& value : matrices_) value = in.get<float>();
  for (std::int32_t& value : held_) value = in.get<std::int32_t>();
  for (float& draw : draws_) draw = in.get<float>();
  for (std::uint8_t& follows : follows_) follows = in.get<std::uint8_t>();
}

std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                  std::uint64_t run_seed, int group) {
  const std::uint64_t seed = derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group));
  auto* mlp = dynamic_cast<MlpPolicy*>(&policy);
  if (mlp != nullptr && MlpActor::can_run(*mlp) && acts_on_host(*mlp, rows))
    return std::make_unique<MlpActor>(*mlp, options, rows, seed);
  auto* recurrent = dynamic_cast<RecurrentPolicy*>(&policy);
  const bool in_loops = options.memory == ActingWithMemory::kInLoops;
  if (recurrent != nullptr && in_loops && RecurrentActor::can_run(*recurrent) && acts_on_host(*recurrent, rows))
    return std::make_unique<RecurrentActor>(*recurrent, options, rows, seed);
  return std::make_unique<ModuleActor>(policy, options, rows, seed);
}

}  // namespace tandem::rl
