#include "tandem/app/config/dd_ppo_options.h"

#include <string>
#include <vector>

namespace tandem::app {
namespace {

void add_counts_of_rank(OptionTable& table, DdPpoSettings& dd_ppo) {
  table
      .add("dd_ppo.envs_per_rank", dd_ppo.envs_per_rank,
           "Environments of each rank; num_envs becomes as many for each rank that the run starts with.")
      .within(1, kLargestCount)
      .flag("--envs-per-rank")
      .instead_of("num_envs")
      .only_with("algo", "dd_ppo");
  table
      .add("dd_ppo.minibatch_size_per_rank", dd_ppo.minibatch_size_per_rank,
           "Rows of an optimizer step on each rank; ppo.minibatch_size becomes as many for each.")
      .within(1, kLargestCount)
      .flag("--minibatch-size-per-rank")
      .instead_of("ppo.minibatch_size")
      .instead_of("ppo.minibatches")
      .only_with("algo", "dd_ppo");
}

void add_straggler_options(OptionTable& table, DdPpoSettings& dd_ppo) {
  table
      .add(
          "dd_ppo.stragglers", dd_ppo.stragglers.policy,
          "wait_all: every env group makes all its steps; preempt: those end early that are not through when most are; "
          "time_optimal: when going on would cost steps a second.")
      .flag("--stragglers")
      .only_with("algo", "dd_ppo");
  table
      .add("dd_ppo.sync_frac", dd_ppo.stragglers.sync_frac,
           "Share of the env groups that must be through before others end early.")
      .above(0)
      .at_most(1)
      .only_with("dd_ppo.stragglers", "preempt");
  table.add("dd_ppo.least_frac", dd_ppo.stragglers.least_frac, "Share of its steps that a group makes in any case.")
      .above(0)
      .at_most(1)
      .only_with("dd_ppo.stragglers", std::vector<std::string>{"preempt", "time_optimal"});
  table
      .add("dd_ppo.replay", dd_ppo.replay,
           "rollouts.jsonl of a run, or its folder: groups end where they ended there, which gives the same numbers.")
      .flag("--replay")
      .only_with("algo", "dd_ppo")
      .lives(Lifetime::kPart);
}

}  // namespace

void add_dd_ppo_options(OptionTable& table, DdPpoSettings& dd_ppo) {
  add_counts_of_rank(table, dd_ppo);
  add_straggler_options(table, dd_ppo);
}

}  // namespace tandem::app
