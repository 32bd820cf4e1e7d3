#include "tandem/app/algo/off_policy.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "tandem/app/algo/compute_rules.h"
#include "tandem/app/algo/schedules.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<rl::Sampling> = words_up_to<rl::Sampling::kBeside>("in_turn", "beside");
template <>
inline constexpr auto kChoices<rl::Hindsight> = words_up_to<rl::Hindsight::kEpisode>("none", "future", "final",
                                                                                     "episode");
template <>
inline constexpr auto kChoices<rl::CriticNorm> = words_up_to<rl::CriticNorm::kLayer>("none", "layer");

namespace {

// Settings of policies that describe actor-critics of other algorithms.
constexpr std::array kOfActorCritics{"policy.trunks",      "policy.head",        "policy.log_std_init",
                                     "policy.hidden_gain", "policy.policy_gain", "policy.value_gain"};

}  // namespace

// Counts first, then what is learned, then what bounds a run.
void add_off_policy_options(const OptionSection& given, rl::OffPolicyOptions& options) {
  OptionSection section = given;
  section.add("train_every", options.train_every, "Steps of each environment between two turns of learning.")
      .within(1, kLargestCount);
  section.add("gradient_steps", options.gradient_steps, "Optimizer steps of a turn.").within(1, kLargestCount);
  section.add("sampling", options.sampling,
              "in_turn: environments step, then the optimizer; beside: both at the same time, for slow environments. "
              "What a step brings is learned from one step later.");
  section.add("batch_size", options.batch_size, "Rows of an optimizer step, over all shards.").within(1, kLargestCount);
  section
      .add("replay_size", options.replay_size,
           "Environment steps that are remembered, over all shards; then the oldest are overwritten.")
      .within(2, kLargestCount);
  section
      .add("replay_folder", options.replay_folder,
           "Folder for files that hold them, in place of memory: for more than fits; gone when the process ends.")
      .kept_absolute()
      .lives(Lifetime::kPart);
  section
      .add("learning_starts", options.learning_starts,
           "Environment steps before the first optimizer step, with actions drawn evenly.")
      .within(1, kLargestCount);
  section.add("gamma", options.gamma, "Discount of rewards a step later.").within(0, 1);
  section.add("n_step", options.n_step, "Rewards that are summed before a target is bootstrapped.").within(1, 1000);
  section.add("tau", options.tau, "Share of the way that target networks go to the networks that learn.")
      .above(0)
      .at_most(1);
  section
      .add("target_every", options.target_every,
           "Turns of learning from one such way to the next; of td3, those in which the policy learns.")
      .within(1, kLargestCount);
  section.add("learning_rate_schedule", options.learning_rate_schedule, kScheduleHelp).lives(Lifetime::kStage);
  section.add("adam_eps", options.adam_eps, "Added to the root of Adam's second moment.").above(0).at_most(1);
  section.add("max_grad_norm", options.max_grad_norm, "Gradients are scaled down to this norm.")
      .above(0)
      .lives(Lifetime::kStage);
  section
      .add("priority_alpha", options.priority_alpha,
           "Rows are drawn in proportion to their last error to this power; 0: all alike.")
      .within(0, 1);
  section
      .add("priority_beta", options.priority_beta,
           "How far weights make up for that at first; they do so wholly at the end of the run.")
      .within(0, 1);
  section.add("hindsight", options.hindsight,
              "Environments with goals: rows are learned from as if they had sought what was achieved in a later step "
              "of their episode (future), its last one (final) or any of its steps (episode); none: as they are.");
  section
      .add("hindsight_goals", options.hindsight_goals, "Of so many rows and one, all but the one are learned from so.")
      .within(1, 1000);
  section.add(
      "kernel", options.kernel,
      "auto: fused kernels for losses and gradients where there are some, else as off; off: tensor operations and "
      "autograd.");
  section.add("compute", options.compute, kComputeHelp);
  section.add("stall_timeout", options.stall_timeout, "Seconds that a step of the environments may take.")
      .within(1, kLargestCount);
}

void add_critic_options(const OptionSection& given, rl::CriticOptions& options) {
  OptionSection section = given;
  section.add("critics", options.critics, "Networks that estimate what an action is worth.").within(1, 64);
  section
      .add("target_critics", options.target_critics,
           "How many of them, drawn in each step, the least is taken of for a target (REDQ); all: of all.")
      .within(1, 64)
      .absent_as("all");
  section.add("critic_norm", options.critic_norm, "layer: a layer norm before each activation of the critics.");
  section
      .add("critic_dropout", options.critic_dropout, "Share of the critics' hidden units that losses leave out (DroQ).")
      .within(0, 0.9);
}

rl::NetworkOptions network_options(const PolicySettings& settings) {
  return {.hidden = settings.hidden, .activation = rl::activation(settings.activation), .torso = settings.torso};
}

rl::NetworkOptions network_options(const PolicySettings& settings, const rl::CriticOptions& options) {
  rl::NetworkOptions networks = network_options(settings);
  networks.critic_norm = options.critic_norm;
  networks.critic_dropout = options.critic_dropout;
  return networks;
}

rl::OffPolicyOptions OffPolicyAlgorithm::with_counts(const TrainOptions& options, rl::OffPolicyOptions its) {
  its.num_envs = options.num_envs;
  its.rollout_steps = options.rollout_steps;
  return its;
}

// Settings that have an effect for actor-critics alone are faults where they were changed, not ignored.
void OffPolicyAlgorithm::check(Rules& rules) const {
  const OptionTable& table = rules.table();
  for (const char* key : kOfActorCritics) {
    const Option& option = table.at(key);
    if (option.text() != option.default_text())
      rules.fault(key, concat("has no effect: ", name(), " has networks of its own"));
  }
  if (any_remembers(rules.options()))
    rules.fault("policy.recurrent", concat(name(), " trains no policies that remember so far; ppo and dd_ppo do"));
  check_learning_rates(rules, section() + ".learning_rate_schedule",
                       off_policy_options(rules.options()).learning_rate_schedule);
  if (off_policy_options(rules.options()).kernel == rl::LossKernel::kRecorded)
    rules.fault(section() + ".kernel", "passes of this algorithm are not recorded so far; use auto or off");
  const rl::OffPolicyOptions its = off_policy_options(rules.options());
  check_compute(rules, section(), its.kernel, its.compute);
  // As in check_effects(), presets and records may hold what has no effect.
  const auto needs = [&](const std::string& key, const std::string& other, bool has_other) {
    const Option& option = table.at(section() + "." + key);
    if (!has_other && option.text() != option.default_text() && option.origin().layer >= Layer::kFile)
      rules.fault(section() + "." + key, concat("has no effect without ", section(), ".", other));
  };
  needs("hindsight_goals", "hindsight", its.hindsight != rl::Hindsight::kNone);
  needs("priority_beta", "priority_alpha", its.priority_alpha > 0);
  if (!sync::is_lockstep(rules.options().strategy) && rules.replicas() > 1) {
    rules.fault("strategy", concat("all ", rules.replicas(), " replicas make each step; use replicated, divided or ",
                                   "parameter_server, or one replica"));
  }
  if (rules.any_faulty({"num_envs", "rollout_steps", "shards", "devices"})) return;
  rules.count_faults(section(),
                     rl::count_faults(off_policy_options(rules.options()), rules.shards(), rules.replicas()));
}

std::vector<OptionCheck> OffPolicyAlgorithm::checks(const CheckPlace& place) const {
  return {refuse_several(
              place.environments, "env", [](const TrainOptions&) { return true; },
              "which are not learned from a replay so far; use ppo, dd_ppo, impala or appo"),
          environment_check(place.environments, "env",
                            [this](const TrainOptions& options, const rl::Spec& spec) {
                              check_actions(options, spec);
                              check_goals(options, spec);
                            }),
          {section() + ".replay_folder", [this](const TrainOptions& options) {
             const auto folder = off_policy_options(options).replay_folder;
             std::error_code ignored;
             if (folder && !std::filesystem::is_directory(*folder, ignored))
               throw ConfigError(concat(folder->string(), " is no folder; name one on a disk that has room"));
           }}};
}

// Whether rewards follow from goals only the environments themselves can tell, when they are made.
void OffPolicyAlgorithm::check_goals(const TrainOptions& options, const rl::Spec& spec) const {
  if (off_policy_options(options).hindsight == rl::Hindsight::kNone) return;
  if (const std::string why = rl::why_no_goals(spec); !why.empty())
    throw ConfigError(concat(section(), ".hindsight needs an environment with goals, and ", spec.id, " ", why));
}

BatchSize OffPolicyAlgorithm::batch_size(const TrainOptions& options) const {
  return {.env_steps = off_policy_options(options).steps_of_update()};
}

// One sentence with all counts that decide how much is learned from what.
std::string OffPolicyAlgorithm::describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const {
  const rl::OffPolicyOptions its = off_policy_options(options);
  return concat("an update has ", its.steps_of_update(), " environment steps; from step ", its.learning_starts, " on, ",
                counted(its.gradient_steps, "optimizer step"), " after every ", its.steps_of_turn(), ", each of ",
                rows_text(its.batch_size, run), ", drawn from the last ", its.replay_size,
                its.replay_folder ? concat(", which files in ", its.replay_folder->string(), " hold") : "");
}

std::unique_ptr<rl::TrainingRun> OffPolicyAlgorithm::make_run(const RunPlan& plan) const {
  auto setup = setup_for<rl::OffPolicySetup>(plan);
  setup.off_policy = off_policy_options(plan.options);
  setup.frame_stacks = plan.environments.frame_stacks(plan.options.env);
  set_agent(plan.options, setup);
  return std::make_unique<rl::OffPolicyRun>(std::move(setup));
}

}  // namespace tandem::app
