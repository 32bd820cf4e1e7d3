#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/actor/actors.h"

// The actors whose networks run in loops of their own.
namespace tandem::rl {
namespace {

// The length of a latent row for state-dependent noise; 0 for other families, which need no latent rows.
template <typename Policy>
std::int64_t noise_features(const Policy& policy) {
  return policy.family() == ActionFamily::kStateDependentNoise ? policy.log_std().size(0) : 0;
}

std::size_t elements(std::int64_t rows, std::int64_t size) { return static_cast<std::size_t>(rows * size); }

std::size_t size_of(const at::Tensor& log_std) {
  return log_std.defined() ? static_cast<std::size_t>(log_std.numel()) : 0;
}

void copy_to(const at::Tensor& log_std, std::vector<float>& copy) {
  if (copy.empty()) return;
  const at::Tensor here = log_std.detach().cpu().contiguous();
  std::copy_n(here.const_data_ptr<float>(), copy.size(), copy.begin());
}

// Those of a policy without a torso may lie on another device: refresh() copies them.
bool has_parameters_for_loops(const ActorCritic& policy, const Encoder& encoder) {
  const auto parameters = policy.parameters();
  return std::ranges::all_of(parameters, [&encoder](const at::Tensor& parameter) {
    return parameter.scalar_type() == at::kFloat && (parameter.is_cpu() || !encoder.has_torso());
  });
}

const std::uint8_t* bytes_of_mask(const at::Tensor& mask) {
  if (!mask.defined()) return nullptr;
  TANDEM_CHECK(mask.is_contiguous() && mask.scalar_type() == at::kByte, "mask of ", mask.sizes());
  return mask.const_data_ptr<std::uint8_t>();
}

}  // namespace

// A torso encodes row by row; without one all rows are encoded in one call, or read where they lie. Whichever it is
// follows from the policy alone, so that every group and every topology has the same features.
ActorFeatures::ActorFeatures(const Spec& spec, const Encoder& encoder, std::int64_t rows, InstructionSet set)
    : encoder_(encoder), leaves_(spec.observation.size()) {
  if (encoder.has_torso()) torsos_.emplace(encoder, set, TorsoNet<float>::Options{.passes = Passes::kForward});
  for (const Leaf& leaf : spec.observation) leaf_bytes_.push_back(leaf.bytes());
  if (torsos_ || !encoder.flat().is_identity()) features_.resize(elements(rows, encoder.size()));
}

// Other leaves are encoded by constants of the spec.
void ActorFeatures::refresh() {
  if (torsos_) torsos_->take_parameters();
}

const float* ActorFeatures::of(const Observation& observation, std::int64_t begin, std::int64_t rows) {
  for (std::size_t l = 0; l < leaves_.size(); ++l) {
    const at::Tensor& leaf = observation[l];
    TANDEM_CHECK(leaf.is_contiguous() && leaf.nbytes() >= static_cast<std::size_t>(begin + rows) * leaf_bytes_[l],
                 "observation leaf ", l, " of ", leaf.sizes(), " for rows ", begin, " .. ", begin + rows);
    leaves_[l] =
        static_cast<const std::byte*>(leaf.const_data_ptr()) + static_cast<std::size_t>(begin) * leaf_bytes_[l];
  }
  if (features_.empty()) return reinterpret_cast<const float*>(leaves_[0]);
  if (!torsos_) {
    encoder_.flat().encode_rows(leaves_, rows, features_.data());
    return features_.data();
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    torsos_->forward(0, leaves_, features_.data() + row * encoder_.size());
    for (std::size_t l = 0; l < leaves_.size(); ++l) leaves_[l] += leaf_bytes_[l];
  }
  return features_.data();
}

bool MlpActor::can_run(const MlpPolicy& policy) { return has_parameters_for_loops(policy, policy.encoder()); }

// Arrays that the policy does not need stay empty, and act() hands them on as null.
MlpActor::MlpActor(const MlpPolicy& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed)
    : policy_(policy),
      rows_(rows),
      inference_(policy, rows, options.instruction_set),
      sampler_(policy.spec(), policy.family(), options, rows, noise_features(policy), Philox(seed)),
      features_(policy.spec(), policy.encoder(), rows, options.instruction_set),
      head_(elements(rows, inference_.head_size())),
      latent_(elements(rows, noise_features(policy))),
      log_std_(size_of(policy.log_std())) {
  refresh();
}

// After an update log_std may have changed, and with it the noise, so held matrices are drawn anew.
void MlpActor::refresh() {
  features_.refresh();
  inference_.refresh();
  sampler_.renew();
  copy_to(policy_.log_std(), log_std_);
}

// The network writes values straight to the caller; actions are drawn from its head.
void MlpActor::act(const Observation& observation, const at::Tensor& mask, const Decisions& out) {
  inference_.run(features_.of(observation, 0, rows_), rows_,
                 {.head = head_.data(), .value = out.value, .latent = latent_.empty() ? nullptr : latent_.data()});
  sampler_.sample(
      {.head = head_.data(), .log_std = log_std_.data(), .latent = latent_.data(), .mask = bytes_of_mask(mask)}, out);
}

// In pieces of at most rows_ rows, which is what the memory of the inference is for.
void MlpActor::evaluate(const Observation& observation, const at::Tensor& /*state*/, float* value) {
  const std::int64_t all = observation[0].size(0);
  for (std::int64_t begin = 0; begin < all; begin += rows_) {
    const std::int64_t rows = std::min(rows_, all - begin);
    inference_.run(features_.of(observation, begin, rows), rows, {.value = value + begin});
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

bool RecurrentActor::can_run(const RecurrentPolicy& policy) {
  return !policy.has_torso() && has_parameters_for_loops(policy, policy.encoder());
}

RecurrentActor::RecurrentActor(const RecurrentPolicy& policy, const ActorOptions& options, std::int64_t rows,
                               std::uint64_t seed)
    : policy_(policy),
      rows_(rows),
      inference_(policy, rows, options.instruction_set),
      sampler_(policy.spec(), policy.family(), options, rows, noise_features(policy), Philox(seed)),
      features_(policy.spec(), policy.encoder(), rows, options.instruction_set),
      state_(at::zeros({rows, policy.state_size()})),
      head_(elements(rows, inference_.head_size())),
      latent_(elements(rows, noise_features(policy))),
      log_std_(size_of(policy.log_std())) {
  refresh();
}

// As MlpActor::refresh().
void RecurrentActor::refresh() {
  features_.refresh();
  inference_.refresh();
  sampler_.renew();
  copy_to(policy_.log_std(), log_std_);
}

void RecurrentActor::act(const Observation& observation, const at::Tensor& mask, const Decisions& out) {
  float* const state = state_.mutable_data_ptr<float>();
  inference_.run(features_.of(observation, 0, rows_), rows_, {.before = state, .after = state},
                 {.head = head_.data(), .value = out.value, .latent = latent_.empty() ? nullptr : latent_.data()});
  sampler_.sample(
      {.head = head_.data(), .log_std = log_std_.data(), .latent = latent_.data(), .mask = bytes_of_mask(mask)}, out);
}

// A state of zeros is the one that an episode begins with.
void RecurrentActor::episodes_ended(std::span<const std::uint8_t> done) {
  sampler_.renew(done);
  const std::int64_t size = state_.size(1);
  for (std::size_t row = 0; row < done.size(); ++row) {
    if (done[row] != 0)
      std::fill_n(state_.mutable_data_ptr<float>() + static_cast<std::int64_t>(row) * size, size, 0.0F);
  }
}

// In pieces of at most rows_ rows, as MlpActor::evaluate().
void RecurrentActor::evaluate(const Observation& observation, const at::Tensor& state, float* value) {
  const std::int64_t all = observation[0].size(0), size = state_.size(1);
  TANDEM_CHECK(state.is_contiguous() && state.scalar_type() == at::kFloat && state.numel() == all * size, "states ",
               state.sizes(), " for ", all, " rows");
  for (std::int64_t begin = 0; begin < all; begin += rows_) {
    const std::int64_t rows = std::min(rows_, all - begin);
    inference_.run(features_.of(observation, begin, rows), rows,
                   {.before = state.const_data_ptr<float>() + begin * size}, {.value = value + begin});
  }
}

// The layout: the sampler, then the states of the rows.
std::vector<std::byte> RecurrentActor::save() const {
  StateWriter out;
  sampler_.save(out);
  out.put_bytes({static_cast<const std::byte*>(state_.const_data_ptr()), state_.nbytes()});
  return out.take();
}

void RecurrentActor::load(std::span<const std::byte> bytes) {
  StateReader in(bytes, "an actor");
  sampler_.load(in);
  const std::span<const std::byte> states = in.get_bytes();
  if (states.size() != state_.nbytes())
    in.fail(concat("what its rows remember has ", states.size(), " bytes, and must have ", state_.nbytes()));
  std::memcpy(state_.mutable_data_ptr(), states.data(), states.size());
  in.expect_end();
}

}  // namespace tandem::rl
