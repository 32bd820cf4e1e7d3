// PPO to the program, and DD-PPO: PPO whose env groups may end rollouts early, with counts of each rank.
// Each in the order of Algorithm's functions: options and their keys, rules between them, checks that need the
// environment, how the log describes a batch, what tuning varies, and how a run is built. Before DD-PPO's class there
// is the record of rollouts that a run may follow.
#include <numeric>

#include "tandem/app/algo/compute_rules.h"
#include "tandem/app/algo/native.h"
#include "tandem/app/algo/schedules.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/app/run/rollout_record.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/rollout/complete_episodes.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<rl::BatchMode> = words_up_to<rl::BatchMode::kCompleteEpisodes>("truncate_episodes",
                                                                                              "complete_episodes");
template <>
inline constexpr std::array kChoices<rl::AdvantageNormalization>{
    Choice{rl::AdvantageNormalization::kMinibatch, "minibatch"}, Choice{rl::AdvantageNormalization::kBatch, "batch"},
    Choice{rl::AdvantageNormalization::kNone, "none"}};

namespace {

void add_ppo_learning(OptionSection section, rl::PpoOptions& ppo) {
  section.add("epochs", ppo.epochs, "Passes over each rollout.").at_least(1).flag("--epochs");
  section.add("minibatches", ppo.minibatches, "Optimizer steps of a pass.")
      .at_least(1)
      .flag("--minibatches")
      .instead_of("ppo.minibatch_size");
  section.add("minibatch_size", ppo.minibatch_size, "Rows of an optimizer step, over all shards.")
      .at_least(1)
      .flag("--minibatch-size");
  section.add("learning_rate", ppo.learning_rate, "Of Adam.").above(0).at_most(1).lives(Lifetime::kStage);
  section.add("learning_rate_schedule", ppo.learning_rate_schedule, kScheduleHelp).lives(Lifetime::kStage);
  section.add("adam_eps", ppo.adam_eps, "Added to the root of Adam's second moment.").above(0).at_most(1);
  section.add("max_grad_norm", ppo.max_grad_norm, "Gradients are scaled down to this norm.")
      .above(0)
      .lives(Lifetime::kStage);
  section
      .add("batch_mode", ppo.batch_mode,
           "Where a rollout ends: truncate_episodes, after rollout_steps; complete_episodes, with the episodes under "
           "way "
           "then, and the next one begins new ones.")
      .flag("--batch-mode");
}

void add_ppo_objective(OptionSection section, rl::PpoOptions& ppo) {
  section.add("gamma", ppo.gamma, "Discount of rewards a step later.").within(0, 1);
  section.add("gae_lambda", ppo.gae_lambda, "Weight of longer estimates of the advantage.").within(0, 1);
  section.add("time_limit", ppo.time_limit,
              "Worth of the rest of an episode that was cut short: bootstrap, its value; terminal, nothing.");
  section.add("advantage_normalization", ppo.advantage_normalization,
              "Rows over which advantages get mean 0 and deviation 1.");
  section.add("clip_range", ppo.clip_range, "The ratio of probabilities counts up to 1 +- this.")
      .above(0)
      .lives(Lifetime::kStage);
  section.add("clip_range_schedule", ppo.clip_range_schedule, kScheduleHelp).lives(Lifetime::kStage);
  section.add("clip_range_value", ppo.clip_range_value, "Most that a value's change counts, in units of the return.")
      .above(0);
  section.add("entropy_coef", ppo.entropy_coef, "Weight of the entropy bonus.").at_least(0).lives(Lifetime::kStage);
  section.add("entropy_coef_schedule", ppo.entropy_coef_schedule, kScheduleHelp).lives(Lifetime::kStage);
  section.add("kl_coef", ppo.kl_coef, "Weight of a penalty on the divergence from the policy that sampled.")
      .at_least(0);
  section
      .add("kl_coef_target", ppo.kl_coef_target,
           "Divergence of an update that kl_coef is raised and lowered to keep to; approx_kl shows it.")
      .above(0);
  section.add("value_coef", ppo.value_coef, "Weight of the value's squared error.").at_least(0);
  section.add("target_kl", ppo.target_kl, "Passes end when approx_kl exceeds 1.5 times this.")
      .above(0)
      .lives(Lifetime::kStage);
  section
      .add("stall_timeout", ppo.stall_timeout,
           "Seconds that one step of an env group may take, after which the run fails.")
      .within(1, kLargestCount);
  section.add(
      "kernel", ppo.kernel,
      "auto: fused kernels for losses and gradients of MLP policies, on a CUDA device as recorded, else as off; off: "
      "tensor operations and autograd; recorded: these as a CUDA graph, or an error.");
  section.add("compute", ppo.compute, kComputeHelp);
}

// Options that scale or adapt a coefficient need one that is not 0.
void check_objective(Rules& rules) {
  const auto& ppo = rules.options().of<rl::PpoOptions>();
  check_learning_rates(rules, "ppo.learning_rate_schedule", ppo.learning_rate_schedule);
  if (rules.any_faulty({"ppo.kl_coef", "ppo.kl_coef_target", "ppo.entropy_coef", "ppo.entropy_coef_schedule"})) return;
  if (ppo.kl_coef_target && ppo.kl_coef == 0)
    rules.fault("ppo.kl_coef_target", "has no effect without a ppo.kl_coef above 0 to begin with; 0.2 is usual");
  if (ppo.entropy_coef_schedule.kind() == rl::Schedule::kLinear && ppo.entropy_coef == 0)
    rules.fault("ppo.entropy_coef_schedule", "has no effect without a ppo.entropy_coef above 0");
}

// The numbers of PPO, with those that every algorithm has and what the policy asks for: `num_envs`, `rollout_steps` and
// the sequences of a recurrent policy are options of the program, and the library's struct has them as fields.
rl::PpoOptions ppo_options(const TrainOptions& options) {
  rl::PpoOptions ppo = options.of<rl::PpoOptions>();
  ppo.num_envs = options.num_envs;
  ppo.rollout_steps = options.rollout_steps;
  if (any_remembers(options)) ppo.sequences = {.length = options.policy.max_seq_len, .burn_in = options.policy.burn_in};
  return ppo;
}

// PPO's batch is a rollout of all environments; one update makes several passes over it. It holds no state of a run:
// options come in with each call. DD-PPO, which is PPO on ranks that do not wait for stragglers, adds its own section
// of options and overrides the three hooks at the end.
class Ppo : public Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "ppo"; }
  [[nodiscard]] bool can_lose_ranks() const override { return true; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    // Options of section "ppo" have an effect with both algorithms.
    const OptionSection section(table, "ppo", {"algo", {"ppo", "dd_ppo"}});
    add_ppo_learning(section, options.of<rl::PpoOptions>());
    add_ppo_objective(section, options.of<rl::PpoOptions>());
  }

  void check(Rules& rules) const override {
    check_objective(rules);
    const auto& ppo = rules.options().of<rl::PpoOptions>();
    check_compute(rules, "ppo", ppo.kernel, ppo.compute);
    check_rollouts(rules);
    if (rules.any_faulty({"num_envs", "rollout_steps", "shards", "devices", "ppo.minibatches", "ppo.minibatch_size",
                          "policy.recurrent", "policy.max_seq_len", "policy.burn_in"})) {
      return;
    }
    rules.count_faults("ppo", rl::count_faults(ppo_options(rules.options()), rules.shards(), rules.replicas()));
  }

  [[nodiscard]] std::vector<FittingCount> fitting_counts(const TrainOptions& options) const override {
    const auto size = rl::fitting_minibatch_size(ppo_options(options), options.shards.value_or(1));
    if (!size) return {};
    return {{"ppo.minibatch_size", *size}};
  }

  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override {
    const auto completes = [](const TrainOptions& options) {
      return options.of<rl::PpoOptions>().completes_episodes();
    };
    return {refuse_several(place.environments, "ppo.batch_mode", completes,
                           "whose episodes go on in the next rollout so far; use truncate_episodes"),
            environment_check(place.environments, "ppo.batch_mode", [completes](const auto& options, const auto& spec) {
              // Throws when the environment sets no bound to its episodes.
              if (completes(options)) (void)rl::CompleteEpisodes::most_steps(spec, options.rollout_steps);
            })};
  }

  [[nodiscard]] BatchSize batch_size(const TrainOptions& options) const override {
    const rl::PpoOptions ppo = ppo_options(options);
    return {.env_steps = ppo.batch_rows(), .may_be_larger = ppo.completes_episodes()};
  }

  // The batch is fixed by the options but for rollouts that end early or late, which the words "at most" and "at least"
  // tell.
  [[nodiscard]] std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const override {
    const rl::PpoOptions ppo = ppo_options(options);
    // Where rollouts may end early, or groups rest: run.why_numbers_differ() says how many do.
    const char* bound = may_have_fewer_rows(options) ? "at most " : ppo.completes_episodes() ? "at least " : "";
    if (run.spec().agents > 1) {
      return concat("an update has ", bound, ppo.batch_rows(), " environment steps of ", run.spec().agents,
                    " agents in all; a policy's rows are the decisions of its agents, and a pass over them has ",
                    ppo.pass_minibatches(), " minibatches");
    }
    return concat("an update has ", bound, rows_text(ppo.batch_rows(), run), ", ", ppo.batch_rows() / run.shards(),
                  " a shard; a minibatch ", bound, rows_text(ppo.minibatch_rows(), run),
                  ppo.sequences ? concat(", with padding and burn-in, in sequences of ", bound,
                                         rl::SequenceCut(ppo.rollout_steps, *ppo.sequences).window())
                                : "");
  }

  [[nodiscard]] std::vector<Knob> knobs(const TrainOptions& given, const Machine& machine) const override {
    const auto& ppo = given.of<rl::PpoOptions>();
    Knob minibatch{.word = "minibatch",
                   .help = "a half to four times the given size or number: other steps, other numbers",
                   .key = ppo.minibatches ? "ppo.minibatches" : "ppo.minibatch_size",
                   .texts = around(ppo.minibatches ? *ppo.minibatches : ppo.minibatch_size.value_or(1))};
    return {devices_knob(given, machine), strategy_knob(given), shards_knob(machine), num_envs_knob(given),
            std::move(minibatch)};
  }

  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const override {
    auto setup = setup_for<rl::PpoSetup>(plan);
    // DD-PPO comes through here, too, and adds its stragglers in set_rollouts().
    setup.ppo = ppo_options(plan.options);
    set_rollouts(plan, setup);
    return std::make_unique<rl::PpoRun>(std::move(setup));
  }

 protected:
  // Rules about survivors, rollouts and the strategy, in which the two differ.
  virtual void check_rollouts(Rules& rules) const {
    if (rules.options().survivors == Survivors::kShrink && !rules.any_faulty({"survivors"}))
      rules.fault("survivors", "updates of fewer rows are DD-PPO's (algo: dd_ppo); those of PPO take_over");
  }
  // Whether env groups may end their rollouts early or rest.
  [[nodiscard]] virtual bool may_have_fewer_rows(const TrainOptions&) const { return false; }
  // Says how env groups end their rollouts; called by make_run() when all other fields are set. Collective over the
  // plan's ranks in DD-PPO, whose record rank 0 reads for all.
  virtual void set_rollouts(const RunPlan&, rl::PpoSetup&) const {}
};

// The options of DD-PPO besides those of PPO. Counts of a rank (a process of the run) become the run's totals before it
// starts, and the totals are what it records: it stays the same run on any number of ranks.
struct DdPpoOptions {
  std::optional<std::int64_t> envs_per_rank = {};            // instead of num_envs
  std::optional<std::int64_t> minibatch_size_per_rank = {};  // instead of ppo.minibatch_size and ppo.minibatches
  pipeline::StragglerOptions stragglers = {};
  std::optional<std::filesystem::path> replay = {};  // a record of rollouts that this run follows

  [[nodiscard]] bool waits_for_all() const { return stragglers.policy == pipeline::Stragglers::kWaitAll; }
};

void add_dd_ppo_options(OptionSection section, DdPpoOptions& dd_ppo) {
  // These two have a total as their rival: giving both is a fault, and configure() turns the one into the other.
  section
      .add("envs_per_rank", dd_ppo.envs_per_rank,
           "Environments of each rank; num_envs becomes as many for each rank that the run starts with.")
      .within(1, kLargestCount)
      .flag("--envs-per-rank")
      .for_each_rank("num_envs");
  section
      .add("minibatch_size_per_rank", dd_ppo.minibatch_size_per_rank,
           "Rows of an optimizer step on each rank; ppo.minibatch_size becomes as many for each.")
      .within(1, kLargestCount)
      .flag("--minibatch-size-per-rank")
      .for_each_rank("ppo.minibatch_size")
      .instead_of("ppo.minibatches");
  section
      .add(
          "stragglers", dd_ppo.stragglers.policy,
          "wait_all: every env group makes all its steps; preempt: those end early that are not through when most are; "
          "time_optimal: when going on would cost steps a second.")
      .flag("--stragglers");
  section
      .add("sync_frac", dd_ppo.stragglers.sync_frac,
           "Share of the env groups that must be through before others end early.")
      .above(0)
      .at_most(1)
      .only_with("dd_ppo.stragglers", "preempt");
  section.add("least_frac", dd_ppo.stragglers.least_frac, "Share of its steps that a group makes in any case.")
      .above(0)
      .at_most(1)
      .only_with({"dd_ppo.stragglers", {"preempt", "time_optimal"}});
  section
      .add("replay", dd_ppo.replay,
           "rollouts.jsonl of a run, or its folder: groups end where they ended there, which gives the same numbers.")
      .flag("--replay")
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

// DD-PPO's ranks take each step together and keep equal parameters without a server.
void check_strategy(Rules& rules) {
  const sync::StrategyKind strategy = rules.options().strategy;
  if (!sync::is_lockstep(strategy)) {
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
    add_dd_ppo_options({table, "dd_ppo", {"algo", {"dd_ppo"}}}, options.of<DdPpoOptions>());
  }

  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override {
    std::vector<OptionCheck> all = Ppo::checks(place);
    all.push_back({"dd_ppo.replay", check_record});
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
    const auto& dd_ppo = plan.options.of<DdPpoOptions>();
    if (plan.options.survivors == Survivors::kShrink) setup.while_missing = rl::WhileMissing::kShareRests;
    setup.stragglers.options = dd_ppo.stragglers;
    if (!dd_ppo.replay) return;
    // Other hosts may not see the file that rank 0 has, so rank 0 sends its text to all. Collective.
    const std::string text = plan.ranks.leads() ? read_file(rollouts_of(*dd_ppo.replay)) : "";
    setup.stragglers.recorded = follow_record(plan.options, text_from(plan.ranks, 0, text));
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_ppo() { return std::make_unique<Ppo>(); }
std::unique_ptr<const Algorithm> make_dd_ppo() { return std::make_unique<DdPpo>(); }

}  // namespace tandem::app
