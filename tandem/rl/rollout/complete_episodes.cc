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

CompleteEpisodes::CompleteEpisodes(RolloutWorker& worker, int steps, std::uint64_t run_seed)
    : worker_(worker),
      steps_(steps),
      run_seed_(run_seed),
      made_(static_cast<std::size_t>(worker.fragment().rows)),
      fragment_(worker.group().spec(), worker.steps() * worker.fragment().rows, 1, states_of_all(worker.fragment())) {
  TANDEM_CHECK(worker.steps() == most_steps(worker.group().spec(), steps), worker.steps(), " steps at most");
}

const Fragment& CompleteEpisodes::collect(std::int64_t update, const Normalizers& frozen) {
  const Span span("rollout");
  // The update goes into the upper half of the number, so seeds differ from those of the run's environments, whose
  // numbers are small. Update 0 gives 1: 0 is the run's own beginning.
  worker_.reset(derive_seed(run_seed_, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(update + 1) << 32));
  sample(frozen);
  worker_.episodes().keep_within(made_);
  join();
  return fragment_;
}

void CompleteEpisodes::rest() {
  worker_.rest();
  fragment_.steps = 0;
  fragment_.joined.clear();
}

// Steps the whole group until each environment has ended the episode that it was in after `steps_` steps. made_ is
// where that was; what an environment does afterwards is left out by join().
void CompleteEpisodes::sample(const Normalizers& frozen) {
  std::fill(made_.begin(), made_.end(), 0);
  worker_.begin(frozen);
  const std::uint8_t* done = worker_.fragment().done.const_data_ptr<std::uint8_t>();
  for (std::size_t left = made_.size(); left > 0; done += made_.size()) {
    worker_.step(frozen);
    // An episode that ends before steps_ does not end the environment's part: it goes on with the next one.
    if (worker_.steps_made() < steps_) continue;
    for (std::size_t row = 0; row < made_.size(); ++row) {
      if (made_[row] > 0 || done[row] == 0) continue;
      made_[row] = worker_.steps_made();
      --left;
    }
  }
  (void)worker_.end();
}

// Copies the steps of each environment that count, one environment behind the other, into the fragment of one column.
void CompleteEpisodes::join() {
  const at::NoGradGuard no_grad;
  const Fragment& from = worker_.fragment();
  std::int64_t begin = 0, begin_state = 0;
  for (std::size_t row = 0; row < made_.size(); ++row) {
    // `its` is [T, N, ...], `joined` is [T * N, 1, ...]: `count` steps of column `row` go behind `offset` rows.
    const auto append = [row](const at::Tensor& its, std::int64_t count, const at::Tensor& joined,
                              std::int64_t offset) {
      joined.select(1, 0)
          .narrow(0, offset, count)
          .copy_(its.select(1, static_cast<std::int64_t>(row)).narrow(0, 0, count));
    };
    const auto copy = [&](const at::Tensor& its, const at::Tensor& joined) { append(its, made_[row], joined, begin); };
    for (std::size_t leaf = 0; leaf < from.observation.size(); ++leaf)
      copy(from.observation[leaf], fragment_.observation[leaf]);
    if (from.action_mask.defined()) copy(from.action_mask, fragment_.action_mask);
    copy(from.action, fragment_.action);
    copy(from.log_prob, fragment_.log_prob);
    copy(from.value, fragment_.value);
    copy(from.reward, fragment_.reward);
    copy(from.done, fragment_.done);
    begin += made_[row];
    if (!from.state.defined()) continue;
    const std::int64_t sequences = SequenceCut(made_[row], worker_.sequences()).count();
    append(from.state, sequences, fragment_.state, begin_state);
    begin_state += sequences;
  }
  fragment_.steps = static_cast<int>(begin);
  fragment_.joined = made_;
}

}  // namespace tandem::rl
