#include "tandem/rl/policy/actor/mlp_actor.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// The length of a latent row for state-dependent noise; 0 for other families, which need no latent rows.
std::int64_t noise_features(const MlpPolicy& policy) {
  return policy.family() == ActionFamily::kStateDependentNoise ? policy.log_std().size(0) : 0;
}

std::size_t elements(std::int64_t rows, std::int64_t size) { return static_cast<std::size_t>(rows * size); }

}  // namespace

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

}  // namespace tandem::rl
