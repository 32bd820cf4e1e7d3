// Episodes are dealt out to at most 32 environments in rounds. Each environment plays one episode a round and waits for
// the longest: if whoever is done first took the next episode, short episodes would be counted too often.
#include "tandem/app/train/evaluate.h"

#include <algorithm>

#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/policy/actor/actor.h"

namespace tandem::app {
namespace {

// One episode a row at a time: each environment plays a fixed share of the episodes, so that short ones are not
// favoured.
class Player {
 public:
  Player(const TrainedPolicy& trained, std::unique_ptr<rl::EnvGroup> group, rl::Acting acting, std::uint64_t seed)
      : trained_(trained),
        group_(std::move(group)),
        buffers_(*group_),
        actor_(
            rl::make_actor(*trained.policy, {.acting = acting}, static_cast<std::int64_t>(buffers_.rows()), seed, 0)),
        discrete_(buffers_.rows() * elements()),
        box_(buffers_.rows() * elements()),
        log_prob_(buffers_.rows()),
        value_(buffers_.rows()) {}

  // Plays one episode in each of the first `count` rows and appends their results in the order of the rows. All rows
  // step until the last of these has ended; what a row does after its end is not counted.
  void play(std::span<const std::uint64_t> seeds, std::size_t count, Evaluation& into) {
    group_->reset(seeds, buffers_.arrays());
    actor_->refresh();
    actor_->episodes_ended(std::vector<std::uint8_t>(buffers_.rows(), 1));  // nothing is left of episodes before
    std::vector<double> sum(buffers_.rows(), 0.0);
    std::vector<std::int64_t> length(buffers_.rows(), 0);
    std::vector<std::uint8_t> finished(buffers_.rows(), 0);
    for (std::size_t left = count; left > 0;) {
      step();
      for (std::size_t row = 0; row < count; ++row) {
        if (finished[row] != 0) continue;
        sum[row] += buffers_.reward()[row];
        ++length[row];
        finished[row] = buffers_.terminated()[row] | buffers_.truncated()[row];
        left -= finished[row];
      }
    }
    into.returns.insert(into.returns.end(), sum.begin(), sum.begin() + static_cast<std::ptrdiff_t>(count));
    into.lengths.insert(into.lengths.end(), length.begin(), length.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(rl::action_elements(group_->spec().action));
  }

  // One step of all rows: view and normalise the observations, let the policy act, bring continuous actions into their
  // bounds, step the environments.
  void step() {
    const rl::Spec& spec = group_->spec();
    const auto rows = static_cast<std::int64_t>(buffers_.rows());
    rl::Observation observation = rl::view_observation(spec, buffers_.arrays().observation, rows);
    if (trained_.normalizers.options().observations) {
      for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) {
        // Normalises in place: the group writes the next observation over it in any case.
        float* values = observation[leaf].data_ptr<float>();
        trained_.normalizers.normalize(leaf, values, values, rows);
      }
    }
    const bool box = std::holds_alternative<rl::Box>(spec.action);
    at::Tensor mask;
    if (spec.has_action_mask) {
      mask = at::from_blob(buffers_.arrays().action_mask, {rows, rl::mask_elements(spec.action)}, at::kByte);
    }
    actor_->act(observation, mask,
                {.discrete = box ? nullptr : discrete_.data(),
                 .box = box ? box_.data() : nullptr,
                 .log_prob = log_prob_.data(),
                 .value = value_.data()});
    rl::EnvActions actions;
    if (box) {
      rl::to_bounds(trained_.policy->family(), std::get<rl::Box>(spec.action), box_.data(), rows, box_.data());
      actions.box = box_.data();
    } else {
      actions.discrete = discrete_.data();
    }
    group_->step(actions, buffers_.arrays());
  }

  const TrainedPolicy& trained_;
  const std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvBuffers buffers_;
  const std::unique_ptr<rl::Actor> actor_;
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_, log_prob_, value_;
};

}  // namespace

// A checkpoint keeps one flat list of tensors; these two prefixes mark what only training needs.
model::NamedTensors model_part(const model::NamedTensors& state) {
  model::NamedTensors kept;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with("optimizer.") && !name.starts_with("averages.")) kept.emplace_back(name, tensor);
  }
  return kept;
}

TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options, const rl::Spec& spec) {
  TrainedPolicy trained{.policy = policy_factory(options.policy)(spec, at::detail::createCPUGenerator(0)),
                        .normalizers = rl::Normalizers(spec, normalizer_options(options.normalize))};
  model::copy_named(model_part(checkpoint.read_part("state").tensors), model::named_state_of(*trained.policy));
  trained.normalizers.load(checkpoint.read_part("normalizers").tensors);
  trained.policy->eval();
  return trained;
}

// More environments than episodes would play for nothing.
std::int64_t episodes_at_once(std::int64_t episodes) {
  constexpr std::int64_t kMost = 32;
  if (episodes < 1) throw ConfigError(concat("episodes is ", episodes, "; it must be at least 1"));
  return std::min(kMost, episodes);
}

void for_each_round(std::int64_t episodes, std::uint64_t seed,
                    const std::function<void(std::span<const std::uint64_t>, std::size_t)>& play) {
  const std::int64_t envs = episodes_at_once(episodes);
  for (std::int64_t first = 0; first < episodes; first += envs) {
    std::vector<std::uint64_t> seeds;
    // The last round draws seeds for rows that do not count, since a reset takes one for every environment.
    for (std::int64_t env = 0; env < envs; ++env)
      seeds.push_back(derive_seed(seed, SeedPurpose::kEvaluation, static_cast<std::uint64_t>(first + env)));
    play(seeds, static_cast<std::size_t>(std::min(envs, episodes - first)));
  }
}

Evaluation evaluate(const model::Checkpoint& checkpoint, const TrainOptions& options,
                    const rl::EnvRegistry& environments, rl::Acting acting, std::int64_t episodes, std::uint64_t seed) {
  const auto envs = static_cast<int>(episodes_at_once(episodes));
  const TrainedPolicy trained = load_policy(checkpoint, options, environments.spec(options.env));
  Player player(trained, environments.make(options.env, envs), acting, seed);
  Evaluation result;
  for_each_round(episodes, seed,
                 [&](std::span<const std::uint64_t> seeds, std::size_t count) { player.play(seeds, count, result); });
  return result;
}

}  // namespace tandem::app
