#include "tandem/rl/policy/actor/actors.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/model/distribution/row_sampling.h"

namespace tandem::rl {
namespace {

// The length of a latent row for state-dependent noise; 0 for other families, which need no latent rows.
std::int64_t noise_features(const MlpPolicy& policy) {
  return policy.family() == ActionFamily::kStateDependentNoise ? policy.log_std().size(0) : 0;
}

std::size_t elements(std::int64_t rows, std::int64_t size) { return static_cast<std::size_t>(rows * size); }

// Every step of the environments waits for its actions. The way to a device and back is worth it when a core would be
// busy for longer; this many products take a slow core about a millisecond. The number comes from that arithmetic and
// was not measured.
constexpr std::int64_t kMostProductsOnHost = 10'000'000;

// Whether the copy of the parameters on the CPU is to act: always for a policy that lies there.
bool acts_on_host(const MlpPolicy& policy, std::int64_t rows) {
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
  random_.load(in.get_bytes());
  in.expect(static_cast<std::uint64_t>(matrices_.size()), "its size of exploration noise");
  for (float& value : matrices_) value = in.get<float>();
  for (std::int32_t& value : held_) value = in.get<std::int32_t>();
  for (float& draw : draws_) draw = in.get<float>();
  for (std::uint8_t& follows : follows_) follows = in.get<std::uint8_t>();
}

bool MlpActor::can_run(const MlpPolicy& policy) {
  if (policy.has_torso()) return false;
  const auto parameters = policy.parameters();
  return std::ranges::all_of(parameters,
                             [](const at::Tensor& parameter) { return parameter.scalar_type() == at::kFloat; });
}

// Arrays that the policy does not need stay empty, and act() hands them on as null.
MlpActor::MlpActor(const MlpPolicy& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed)
    : policy_(policy),
      rows_(rows),
      inference_(policy, rows, options.instruction_set),
      sampler_(policy.spec(), policy.family(), options, rows, noise_features(policy), Philox(seed)),
      head_(elements(rows, inference_.head_size())),
      latent_(elements(rows, noise_features(policy))),
      log_std_(policy.log_std().defined() ? static_cast<std::size_t>(policy.log_std().numel()) : 0),
      leaves_(policy.spec().observation.size()) {
  if (!policy.features().is_identity()) features_.resize(elements(rows, policy.features().size()));
  refresh();
}

// After an update log_std may have changed, and with it the noise, so held matrices are drawn anew.
void MlpActor::refresh() {
  inference_.refresh();
  sampler_.renew();
  if (log_std_.empty()) return;
  const at::Tensor log_std = policy_.log_std().detach().cpu().contiguous();
  std::copy_n(log_std.const_data_ptr<float>(), log_std_.size(), log_std_.begin());
}

// Observations that are one float leaf are features already and are read where they lie; others are encoded.
const float* MlpActor::features(const Observation& observation, std::int64_t begin, std::int64_t rows) {
  for (std::size_t l = 0; l < leaves_.size(); ++l) {
    const at::Tensor& leaf = observation[l];
    const Leaf& expected = policy_.spec().observation[l];
    TANDEM_CHECK(leaf.is_contiguous() && leaf.nbytes() >= static_cast<std::size_t>(begin + rows) * expected.bytes(),
                 "observation leaf ", expected.name, " of ", leaf.sizes(), " for rows ", begin, " .. ", begin + rows);
    leaves_[l] =
        static_cast<const std::byte*>(leaf.const_data_ptr()) + static_cast<std::size_t>(begin) * expected.bytes();
  }
  if (features_.empty()) return reinterpret_cast<const float*>(leaves_[0]);
  policy_.features().encode_rows(leaves_, rows, features_.data());
  return features_.data();
}

// The network writes values straight to the caller; actions are drawn from its head.
void MlpActor::act(const Observation& observation, const at::Tensor& mask, const Decisions& out) {
  inference_.run(features(observation, 0, rows_), rows_,
                 {.head = head_.data(), .value = out.value, .latent = latent_.empty() ? nullptr : latent_.data()});
  TANDEM_CHECK(!mask.defined() || (mask.is_contiguous() && mask.scalar_type() == at::kByte), "mask of ", mask.sizes());
  sampler_.sample({.head = head_.data(),
                   .log_std = log_std_.data(),
                   .latent = latent_.data(),
                   .mask = mask.defined() ? mask.const_data_ptr<std::uint8_t>() : nullptr},
                  out);
}

// In pieces of at most rows_ rows, which is what the memory of the inference is for.
void MlpActor::evaluate(const Observation& observation, const at::Tensor& /*state*/, float* value) {
  const std::int64_t all = observation[0].size(0);
  for (std::int64_t begin = 0; begin < all; begin += rows_) {
    const std::int64_t rows = std::min(rows_, all - begin);
    inference_.run(features(observation, begin, rows), rows, {.value = value + begin});
  }
}

std::vector<std::byte> MlpActor::save() const {
  StateWriter out;
  sampler_.save(out);
  return out.take();
}

void MlpActor::load(std::span<const std::byte> state) {
  StateReader in(state, "an actor");
  sampler_.load(in);
  in.expect_end();
}

std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                  std::uint64_t run_seed, int group) {
  const std::uint64_t seed = derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group));
  auto* mlp = dynamic_cast<MlpPolicy*>(&policy);
  if (mlp != nullptr && MlpActor::can_run(*mlp) && acts_on_host(*mlp, rows))
    return std::make_unique<MlpActor>(*mlp, options, rows, seed);
  return std::make_unique<ModuleActor>(policy, options, rows, seed);
}

}  // namespace tandem::rl
