#include "tandem/rl/rollout/complete_episodes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"

namespace tandem::rl {
namespace {

KeptStates states_of_all(const Fragment& fragment) {
  if (!fragment.state.defined()) return {};
  return {.sequences = fragment.state.size(0) * fragment.rows, .size = fragment.state.size(2)};
}

}  // namespace

int CompleteEpisodes::most_steps(const Spec& spec, int steps) {
  if (spec.max_episode_steps < 1) {
    throw ConfigError(concat("the episodes of ", spec.id,
                             " have no time limit, and a rollout that waits for their ends might go on for ever; give "
                             "it one (Spec::max_episode_steps), or use truncate_episodes"));
  }
  return steps + spec.max_episode_steps - 1;  // the step before the last of those may have begun an episode
}

CompleteEpisodes::CompleteEpisodes(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> actor,
                                   const RolloutOptions& options, int first_env, int steps, std::uint64_t run_seed)
    : RolloutWorker(std::move(group), std::move(actor), options, first_env),
      steps_(steps),
      run_seed_(run_seed),
      made_(static_cast<std::size_t>(envs())),
      joined_(this->group().spec(), options.steps * envs(), 1, states_of_all(fragment())) {
  TANDEM_CHECK(options.steps == most_steps(this->group().spec(), steps), options.steps, " steps at most");
}

void CompleteEpisodes::sample(std::int64_t update, std::span<const Normalizers> frozen) {
  const Span span("rollout");
  // The update goes into the upper half of the number, so seeds differ from those of the run's environments, whose
  // numbers are small. Update 0 gives 1: 0 is the run's own beginning.
  reset(derive_seed(run_seed_, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(update + 1) << 32));
  make_steps(frozen.front());
  episodes().keep_within(made_);
  join();
}

void CompleteEpisodes::rest() {
  RolloutWorker::rest();
  joined_.steps = 0;
  joined_.joined.clear();
}

GroupWorker::Resumed CompleteEpisodes::load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) {
  (void)RolloutWorker::load(state, seed_for_new_episodes);
  return Resumed::kExactly;
}

// Steps the whole group until each environment has ended the episode that it was in after `steps_` steps. made_ is
// where that was; what an environment does afterwards is left out by join().
void CompleteEpisodes::make_steps(const Normalizers& frozen) {
  std::fill(made_.begin(), made_.end(), 0);
  begin(frozen);
  const std::uint8_t* done = fragment().done.const_data_ptr<std::uint8_t>();
  for (std::size_t left = made_.size(); left > 0; done += made_.size()) {
    step(frozen);
    // An episode that ends before steps_ does not end the environment's part: it goes on with the next one.
    if (steps_made() < steps_) continue;
    for (std::size_t row = 0; row < made_.size(); ++row) {
      if (made_[row] > 0 || done[row] == 0) continue;
      made_[row] = steps_made();
      --left;
    }
  }
  (void)end();
}

// Copies the steps of each environment that count, one environment behind the other, into the fragment of one column.
void CompleteEpisodes::join() {
  const at::NoGradGuard no_grad;
  const Fragment& from = fragment();
  std::int64_t next = 0, next_state = 0;
  for (std::size_t row = 0; row < made_.size(); ++row) {
    // `its` is [T, N, ...], `all` is [T * N, 1, ...]: `count` steps of column `row` go behind `offset` rows.
    const auto append = [row](const at::Tensor& its, std::int64_t count, const at::Tensor& all, std::int64_t offset) {
      all.select(1, 0)
          .narrow(0, offset, count)
          .copy_(its.select(1, static_cast<std::int64_t>(row)).narrow(0, 0, count));
    };
    const auto copy = [&](const at::Tensor& its, const at::Tensor& all) { append(its, made_[row], all, next); };
    for (std::size_t leaf = 0; leaf < from.observation.size(); ++leaf)
      copy(from.observation[leaf], joined_.observation[leaf]);
    if (from.action_mask.defined()) copy(from.action_mask, joined_.action_mask);
    copy(from.action, joined_.action);
    copy(from.log_prob, joined_.log_prob);
    copy(from.value, joined_.value);
    copy(from.reward, joined_.reward);
    copy(from.done, joined_.done);
    next += made_[row];
    if (!from.state.defined()) continue;
    const std::int64_t count = SequenceCut(made_[row], sequences()).count();
    append(from.state, count, joined_.state, next_state);
    next_state += count;
  }
  joined_.steps = static_cast<int>(next);
  joined_.joined = made_;
}

}  // namespace tandem::rl
