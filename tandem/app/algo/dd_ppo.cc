// DD-PPO to the program: PPO whose env groups may end rollouts early, with counts of each rank.
// In this order: options and their keys, the record of rollouts that a run may follow, rules between options, and the
// class. Rules that PPO has as well are in ppo.cc.
#include <numeric>
#include <span>

#include "tandem/app/algo/ppo.h"
#include "tandem/app/run/rollout_record.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/multi_agent.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

namespace {

// The options of DD-PPO besides those of PPO. Counts of a rank (a process of the run) become the run's totals before it
// starts, and the totals are what it records: it stays the same run on any number of ranks.
struct DdPpoOptions {
  std::optional<std::int64_t> envs_per_rank = {};            // instead of num_envs
  std::optional<std::int64_t> minibatch_size_per_rank = {};  // instead of ppo.minibatch_size and ppo.minibatches
  pipeline::StragglerOptions stragglers = {};
  std::optional<std::filesystem::path> replay = {};  // a record of rollouts that this run follows

  [[nodiscard]] bool waits_for_all() const { return stragglers.policy == pipeline::Stragglers::kWaitAll; }
};

// Both have a total as their rival: giving both is a fault, and configure() turns the one into the other.
void add_counts_of_rank(OptionTable& table, DdPpoOptions& dd_ppo) {
  table
      .add("dd_ppo.envs_per_rank", dd_ppo.envs_per_rank,
           "Environments of each rank; num_envs becomes as many for each rank that the run starts with.")
      .within(1, kLargestCount)
      .flag("--envs-per-rank")
      .for_each_rank("num_envs")
      .only_with("algo", "dd_ppo");
  table
      .add("dd_ppo.minibatch_size_per_rank", dd_ppo.minibatch_size_per_rank,
           "Rows of an optimizer step on each rank; ppo.minibatch_size becomes as many for each.")
      .within(1, kLargestCount)
      .flag("--minibatch-size-per-rank")
      .for_each_rank("ppo.minibatch_size")
      .instead_of("ppo.minibatches")
      .only_with("algo", "dd_ppo");
}

void add_straggler_options(OptionTable& table, DdPpoOptions& dd_ppo) {
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
      .kept_absolute()
      .lives(Lifetime::kPart);
}

// Element [u][g] is the number of steps that env group g made in update u.
std::vector<std::vector<int>> follow_record(const TrainOptions& options, const std::string& text) {
  return read_rollouts(text, options.of<DdPpoOptions>().replay->string(), static_cast<int>(options.shards.value_or(1)),
                       options.rollout_steps);
}

// It would be found out at the record's end only.
void require_steps(const std::vector<std::vector<int>>& rollouts, const TrainOptions& options) {
  const std::int64_t envs = options.num_envs / options.shards.value_or(1);
  std::int64_t recorded = 0;
  for (const std::vector<int>& groups : rollouts)
    recorded += envs * std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
  if (recorded >= options.total_steps) return;
  throw ConfigError(concat("the record ends after ", rollouts.size(), " updates with ", recorded,
                           " environment steps, and total_steps is ", options.total_steps, "; ask for at most ",
                           recorded));
}

// The record that the options follow can be read and followed.
// Run before training, on the process that reads the command line: a record that does not fit would otherwise end the
// run after hours.
void check_record(const TrainOptions& options) {
  const auto& replay = options.of<DdPpoOptions>().replay;
  if (!replay) return;
  try {
    const std::vector<std::vector<int>> rollouts = follow_record(options, read_file(rollouts_of(*replay)));
    require_steps(rollouts, options);
    const std::string fault = rl::record_fault(ppo_options(options), options.shards.value_or(1), rollouts);
    if (!fault.empty()) throw ConfigError(fault);
  } catch (const RunError& error) {
    throw ConfigError(error.what());  // that it cannot be read
  }
}

// Rank 0 has the file.
// Other hosts may not see that file, so rank 0 sends its text to all. Collective.
rl::StragglerSetup straggler_setup(const TrainOptions& options, const learner::Ranks& ranks) {
  const auto& dd_ppo = options.of<DdPpoOptions>();
  rl::StragglerSetup setup{.options = dd_ppo.stragglers};
  if (!dd_ppo.replay) return setup;
  std::string text = ranks.leads() ? read_file(rollouts_of(*dd_ppo.replay)) : "";
  const std::vector<std::byte> bytes = ranks.from_leader(std::as_bytes(std::span(text)));
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  setup.recorded = follow_record(options, text);
  return setup;
}

// DD-PPO's ranks take each step together and keep equal parameters without a server.
void check_strategy(Rules& rules) {
  const sync::StrategyKind strategy = rules.options().strategy;
  if (sync::depends_on_speed(strategy)) {
    rules.fault("strategy",
                "steps of DD-PPO are made of the gradients of all ranks; use replicated or divided, or algo: ppo");
  } else if (strategy == sync::StrategyKind::kParameterServer) {
    rules.fault("strategy", "DD-PPO has no parameter server; use replicated or divided, or algo: ppo");
  }
}

void check_batch_mode(Rules& rules, const DdPpoOptions& dd_ppo) {
  if (!rules.options().of<rl::PpoOptions>().completes_episodes() || rules.any_faulty({"ppo.batch_mode"})) return;
  if (!rules.any_faulty({"dd_ppo.stragglers"}) && !dd_ppo.waits_for_all()) {
    rules.fault("ppo.batch_mode",
                concat("a rollout that ends early, as dd_ppo.stragglers: ", word_of(dd_ppo.stragglers.policy),
                       " has it, cuts episodes; use wait_all, or truncate_episodes"));
  } else if (dd_ppo.replay) {
    rules.fault("ppo.batch_mode", "the record of dd_ppo.replay says where rollouts end; use truncate_episodes");
  } else if (rules.options().survivors == Survivors::kShrink) {
    rules.fault("ppo.batch_mode", "who rests is recorded with survivors: shrink by numbers of steps; use take_over");
  }
}

// A rule that could only speak when all have finished would do nothing.
void check_stragglers(Rules& rules, const DdPpoOptions& dd_ppo) {
  if (rules.any_faulty({"dd_ppo.stragglers", "dd_ppo.least_frac", "num_envs", "rollout_steps", "shards"})) return;
  if (dd_ppo.waits_for_all() || dd_ppo.replay) return;
  const auto groups = static_cast<double>(rules.shards());
  if (groups == 1) {
    rules.fault("dd_ppo.stragglers",
                "there is one env group, as many as shards, and nobody waits for it; use wait_all");
  } else if (dd_ppo.stragglers.policy == pipeline::Stragglers::kPreempt &&
             dd_ppo.stragglers.sync_frac * groups > groups - 1) {
    rules.fault("dd_ppo.sync_frac",
                concat("of ", groups, " env groups, as many as shards, that is all of them, and rollouts would never ",
                       "end early; ask for at most ", (groups - 1) / groups, ", use more shards, or wait_all"));
  }
}

class DdPpo final : public Ppo {
 public:
  [[nodiscard]] std::string name() const override { return "dd_ppo"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    add_counts_of_rank(table, options.of<DdPpoOptions>());
    add_straggler_options(table, options.of<DdPpoOptions>());
  }

  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override {
    std::vector<OptionCheck> all = Ppo::checks(place);
    all.push_back({"dd_ppo.replay", check_record});
    all.push_back({"algo", [place](const TrainOptions& options) {
                     const rl::EnvRegistry known = with_plugins(place.environments, options);
                     if (const rl::MultiAgentEntry* agents = known.find_multi_agent(options.env))
                       refuse(*agents, "which ppo, impala and appo train, dd_ppo not so far");
                   }});
    return all;
  }

  // A record fixes where rollouts end, so a replay does not depend on speed.
  [[nodiscard]] bool depends_on_timing(const TrainOptions& options) const override {
    const auto& dd_ppo = options.of<DdPpoOptions>();
    return !dd_ppo.replay && !dd_ppo.waits_for_all();
  }

  void require_tunable(const TrainOptions& options) const override {
    if (options.of<DdPpoOptions>().replay)
      throw ConfigError("dd_ppo.replay: a run that follows a record has as many steps as that; leave it out to tune");
  }

 private:
  void check_rollouts(Rules& rules) const override {
    const auto& dd_ppo = rules.options().of<DdPpoOptions>();
    if (rules.options().survivors == Survivors::kShrink && !rules.any_faulty({"survivors"}) && dd_ppo.replay)
      rules.fault("survivors",
                  "a replay makes the steps of its record, whoever is left; use take_over, or leave it out");
    check_batch_mode(rules, dd_ppo);
    check_strategy(rules);
    check_stragglers(rules, dd_ppo);
  }

  [[nodiscard]] bool may_have_fewer_rows(const TrainOptions& options) const override {
    const auto& dd_ppo = options.of<DdPpoOptions>();
    return options.survivors == Survivors::kShrink || dd_ppo.replay || !dd_ppo.waits_for_all();
  }

  void set_rollouts(const RunPlan& plan, rl::PpoSetup& setup) const override {
    setup.stragglers = straggler_setup(plan.options, plan.ranks);
    if (plan.options.survivors == Survivors::kShrink) setup.while_missing = rl::WhileMissing::kShareRests;
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_dd_ppo() { return std::make_unique<DdPpo>(); }

}  // namespace tandem::app
