// In the order of Algorithm's functions: options and their keys, rules between them, checks that need the environment,
// how the log describes a batch, what tuning varies, and how a run is built, for one agent and for several.
#include "tandem/app/algo/ppo.h"

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/multi_agent.h"
#include "tandem/app/tune/knobs.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/rollout/complete_episodes.h"

namespace tandem::app {

template <>
struct Choices<rl::BatchMode> {
  using enum rl::BatchMode;
  static constexpr std::array kAll{Choice{kTruncateEpisodes, "truncate_episodes"},
                                   Choice{kCompleteEpisodes, "complete_episodes"}};
};
template <>
struct Choices<rl::AdvantageNormalization> {
  using enum rl::AdvantageNormalization;
  static constexpr std::array kAll{Choice{kMinibatch, "minibatch"}, Choice{kBatch, "batch"}, Choice{kNone, "none"}};
};

namespace {

// Options of section "ppo" have an effect with both algorithms.
const std::vector<std::string> kPpos{"ppo", "dd_ppo"};

void add_ppo_learning(OptionTable& table, rl::PpoOptions& ppo) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", kPpos);
  };
  add("ppo.epochs", ppo.epochs, "Passes over each rollout.").at_least(1).flag("--epochs");
  add("ppo.minibatches", ppo.minibatches, "Optimizer steps of a pass.")
      .at_least(1)
      .flag("--minibatches")
      .instead_of("ppo.minibatch_size");
  add("ppo.minibatch_size", ppo.minibatch_size, "Rows of an optimizer step, over all shards.")
      .at_least(1)
      .flag("--minibatch-size");
  add("ppo.learning_rate", ppo.learning_rate, "Of Adam.").above(0).at_most(1);
  add("ppo.learning_rate_schedule", ppo.learning_rate_schedule, "linear: down to 0 at total_steps.");
  add("ppo.adam_eps", ppo.adam_eps, "Added to the root of Adam's second moment.").above(0).at_most(1);
  add("ppo.max_grad_norm", ppo.max_grad_norm, "Gradients are scaled down to this norm.").above(0);
  add("ppo.batch_mode", ppo.batch_mode,
      "Where a rollout ends: truncate_episodes, after rollout_steps; complete_episodes, with the episodes under way "
      "then, and the next one begins new ones.")
      .flag("--batch-mode");
}

void add_ppo_objective(OptionTable& table, rl::PpoOptions& ppo) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", kPpos);
  };
  add("ppo.gamma", ppo.gamma, "Discount of rewards a step later.").within(0, 1);
  add("ppo.gae_lambda", ppo.gae_lambda, "Weight of longer estimates of the advantage.").within(0, 1);
  add("ppo.time_limit", ppo.time_limit,
      "Worth of the rest of an episode that was cut short: bootstrap, its value; terminal, nothing.");
  add("ppo.advantage_normalization", ppo.advantage_normalization,
      "Rows over which advantages get mean 0 and deviation 1.");
  add("ppo.clip_range", ppo.clip_range, "The ratio of probabilities counts up to 1 +- this.").above(0);
  add("ppo.clip_range_schedule", ppo.clip_range_schedule, "linear: down to 0 at total_steps.");
  add("ppo.clip_range_value", ppo.clip_range_value, "Most that a value's change counts, in units of the return.")
      .above(0);
  add("ppo.entropy_coef", ppo.entropy_coef, "Weight of the entropy bonus.").at_least(0);
  add("ppo.entropy_coef_schedule", ppo.entropy_coef_schedule, "linear: down to 0 at total_steps.");
  add("ppo.kl_coef", ppo.kl_coef, "Weight of a penalty on the divergence from the policy that sampled.").at_least(0);
  add("ppo.kl_coef_target", ppo.kl_coef_target,
      "Divergence of an update that kl_coef is raised and lowered to keep to; approx_kl shows it.")
      .above(0);
  add("ppo.value_coef", ppo.value_coef, "Weight of the value's squared error.").at_least(0);
  add("ppo.target_kl", ppo.target_kl, "Passes end when approx_kl exceeds 1.5 times this.").above(0);
  add("ppo.stall_timeout", ppo.stall_timeout,
      "Seconds that one step of an env group may take, after which the run fails.")
      .within(1, kLargestCount);
  add("ppo.kernel", ppo.kernel,
      "auto: fused kernels for losses and gradients of MLP policies, on a CUDA device as recorded, else as off; off: "
      "tensor operations and autograd; recorded: these as a CUDA graph, or an error.");
}

// Options that scale or adapt a coefficient need one that is not 0.
void check_objective(Rules& rules) {
  const auto& ppo = rules.options().of<rl::PpoOptions>();
  if (rules.any_faulty({"ppo.kl_coef", "ppo.kl_coef_target", "ppo.entropy_coef", "ppo.entropy_coef_schedule"})) return;
  if (ppo.kl_coef_target && ppo.kl_coef == 0)
    rules.fault("ppo.kl_coef_target", "has no effect without a ppo.kl_coef above 0 to begin with; 0.2 is usual");
  if (ppo.entropy_coef_schedule != rl::Schedule::kConstant && ppo.entropy_coef == 0)
    rules.fault("ppo.entropy_coef_schedule", "has no effect without a ppo.entropy_coef above 0");
}

}  // namespace

rl::PpoOptions ppo_options(const TrainOptions& options) {
  rl::PpoOptions ppo = options.of<rl::PpoOptions>();
  ppo.num_envs = options.num_envs;
  ppo.rollout_steps = options.rollout_steps;
  if (options.policy.recurrent != Recurrence::kNone)
    ppo.sequences = {.length = options.policy.max_seq_len, .burn_in = options.policy.burn_in};
  return ppo;
}

void Ppo::add_options(OptionTable& table, TrainOptions& options) const {
  add_ppo_learning(table, options.of<rl::PpoOptions>());
  add_ppo_objective(table, options.of<rl::PpoOptions>());
}

void Ppo::check(Rules& rules) const {
  check_objective(rules);
  check_rollouts(rules);
  if (rules.any_faulty({"num_envs", "rollout_steps", "shards", "devices", "ppo.minibatches", "ppo.minibatch_size",
                        "policy.recurrent", "policy.max_seq_len", "policy.burn_in"})) {
    return;
  }
  rules.count_faults("ppo", rl::count_faults(ppo_options(rules.options()), rules.shards(), rules.replicas()));
}

void Ppo::check_rollouts(Rules& rules) const {
  if (rules.options().survivors == Survivors::kShrink && !rules.any_faulty({"survivors"}))
    rules.fault("survivors", "updates of fewer rows are DD-PPO's (algo: dd_ppo); those of PPO take_over");
  if (!rules.options().of<rl::PpoOptions>().completes_episodes() || rules.any_faulty({"ppo.batch_mode"})) return;
  if (rules.options().survivors == Survivors::kShrink)
    rules.fault("ppo.batch_mode", "who rests is recorded with survivors: shrink by numbers of steps; use take_over");
}

std::vector<OptionCheck> Ppo::checks(const CheckPlace& place) const {
  return {{"ppo.batch_mode", [place](const TrainOptions& options) {
             if (!options.of<rl::PpoOptions>().completes_episodes()) return;
             const rl::EnvRegistry known = with_plugins(place.environments, options);
             if (const rl::MultiAgentEntry* agents = known.find_multi_agent(options.env))
               refuse(*agents, "whose episodes go on in the next rollout so far; use truncate_episodes");
             // Throws when the environment sets no bound to its episodes.
             (void)rl::CompleteEpisodes::most_steps(known.spec(options.env), options.rollout_steps);
           }}};
}

BatchSize Ppo::batch_size(const TrainOptions& options) const {
  const rl::PpoOptions ppo = ppo_options(options);
  return {.env_steps = ppo.batch_rows(), .may_be_larger = ppo.completes_episodes()};
}

// The batch is fixed by the options but for rollouts that end early or late, which the words "at most" and "at least"
// tell.
std::string Ppo::describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const {
  const rl::PpoOptions ppo = ppo_options(options);
  if (run.spec().agents > 1) {
    return concat("an update has ", ppo.batch_rows(), " environment steps of ", run.spec().agents,
                  " agents in all; a policy's rows are the decisions of its agents, and a pass over them has ",
                  ppo.pass_minibatches(), " minibatches");
  }
  // Where rollouts may end early, or groups rest: run.why_numbers_differ() says how many do.
  const char* bound = may_have_fewer_rows(options) ? "at most " : ppo.completes_episodes() ? "at least " : "";
  return concat("an update has ", bound, rows_text(ppo.batch_rows(), run), ", ", ppo.batch_rows() / run.shards(),
                " a shard; a minibatch ", bound, rows_text(ppo.minibatch_rows(), run),
                ppo.sequences ? concat(", with padding and burn-in, in sequences of ", bound,
                                       rl::SequenceCut(ppo.rollout_steps, *ppo.sequences).window())
                              : "");
}

std::vector<Knob> Ppo::knobs(const TrainOptions& given, const Machine& machine) const {
  const auto& ppo = given.of<rl::PpoOptions>();
  Knob minibatch{.word = "minibatch",
                 .help = "a half to four times the given size or number: other steps, other numbers",
                 .key = ppo.minibatches ? "ppo.minibatches" : "ppo.minibatch_size",
                 .texts = around(ppo.minibatches ? *ppo.minibatches : ppo.minibatch_size.value_or(1))};
  return {devices_knob(given, machine), strategy_knob(given), shards_knob(machine), num_envs_knob(given),
          std::move(minibatch)};
}

std::unique_ptr<rl::TrainingRun> Ppo::make_run(const RunPlan& plan) const {
  auto setup = setup_for<rl::PpoSetup>(plan);
  // DD-PPO comes through here, too, and adds its stragglers in set_rollouts().
  setup.ppo = ppo_options(plan.options);
  set_rollouts(plan, setup);
  return std::make_unique<rl::PpoRun>(std::move(setup));
}

}  // namespace tandem::app
