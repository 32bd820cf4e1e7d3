// In the order of Algorithm's functions, as ppo.cc. IMPALA's batch is what one rollout worker brings, so the number of
// workers decides its size.
#include "tandem/app/algo/impala.h"

#include <algorithm>

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/multi_agent.h"
#include "tandem/app/tune/knobs.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/pipeline/pipeline_stats.h"
#include "tandem/rl/algo/impala/impala_run.h"

namespace tandem::app {

template <>
struct Choices<rl::ImpalaExecution> {
  using enum rl::ImpalaExecution;
  static constexpr std::array kAll{Choice{kThreads, "threads"}, Choice{kInline, "inline"}};
};
template <>
struct Choices<pipeline::BeyondLag> {
  using enum pipeline::BeyondLag;
  static constexpr std::array kAll{Choice{kWait, "wait"}, Choice{kDrop, "drop"}};
};

namespace {

const std::vector<std::string> kWithPipeline{"impala", "appo"};  // algorithms that sample and learn at the same time

void add_impala_pipeline(OptionTable& table, rl::ImpalaOptions& impala) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", kWithPipeline);
  };
  add("impala.execution", impala.execution,
      "threads: sampling and learning at the same time; inline: in turn on one thread, the same in every run.");
  add("impala.workers", impala.workers,
      "Rollout workers of each rank, each with as many environments, on a thread each.")
      .within(1, 1024)
      .flag("--workers");
  add("impala.splits", impala.splits,
      "Parts of a worker's environments of each shard, which take turns on threads of their own where they are "
      "several: while one steps, the policy acts for another.")
      .within(1, 64);
  add("impala.queue", impala.queue, "Batches that wait for the learner before the workers must.")
      .within(1, kLargestCount);
  add("impala.buffers", impala.buffers, "Batches beside the learner, that which it learns from included.")
      .within(1, 1024);
  add("impala.loaders", impala.loaders, "Threads that copy batches there; at most as many as buffers.").within(1, 1024);
  add("impala.passes", impala.passes, "Of the learner over each batch.").within(1, kLargestCount);
  add("impala.max_policy_lag", impala.max_policy_lag,
      "Most learner steps between the weights that a batch was made with and its first use.")
      .within(0, kLargestCount);
  add("impala.beyond_lag", impala.beyond_lag,
      "For that bound: wait, workers begin a batch only when it cannot become too old; drop, such batches are not "
      "used.");
  add("impala.batches_per_update", impala.batches_per_update, "Learner steps between two updates of the metrics.")
      .within(1, kLargestCount);
  add("impala.learner_queue_timeout", impala.learner_queue_timeout,
      "Seconds without a batch, after which the run fails.")
      .within(1, kLargestCount);
  add("impala.stall_timeout", impala.stall_timeout,
      "Seconds that a rollout, the copy of a batch or a learner step may take, after which the run fails; a learner "
      "step of "
      "several ranks as long again as it may wait for the others.")
      .within(1, kLargestCount);
}

void add_impala_objective(OptionTable& table, rl::ImpalaOptions& impala) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", kWithPipeline);
  };
  add("impala.learning_rate", impala.learning_rate, "Of Adam.").above(0).at_most(1);
  add("impala.learning_rate_schedule", impala.learning_rate_schedule, "linear: down to 0 at total_steps.");
  add("impala.adam_eps", impala.adam_eps, "Added to the root of Adam's second moment.").above(0).at_most(1);
  add("impala.max_grad_norm", impala.max_grad_norm, "Gradients are scaled down to this norm.").above(0);
  add("impala.gamma", impala.gamma, "Discount of rewards a step later.").within(0, 1);
  add("impala.time_limit", impala.time_limit,
      "Worth of the rest of an episode that was cut short: bootstrap, its value; terminal, nothing.");
  add("impala.rho_clip", impala.rho_clip, "Ratios of probabilities that correct a step count up to this.").above(0);
  add("impala.c_clip", impala.c_clip, "Those that carry a correction to the steps before, up to this.").above(0);
  add("impala.entropy_coef", impala.entropy_coef, "Weight of the entropy bonus.").at_least(0);
  add("impala.value_coef", impala.value_coef, "Weight of the value's squared error.").at_least(0);
  add("impala.kernel", impala.kernel,
      "auto: fused kernels for losses and gradients of MLP policies, on a CUDA device as recorded, else as off; off: "
      "tensor operations and autograd; recorded: these as a CUDA graph, or an error.");
}

// Returns the algorithm's own options with the counts that every algorithm has, and the sequences that the policy
// needs.
rl::ImpalaOptions impala_options(const TrainOptions& options) {
  rl::ImpalaOptions impala = options.of<rl::ImpalaOptions>();
  impala.num_envs = options.num_envs;
  impala.rollout_steps = options.rollout_steps;
  if (options.policy.recurrent != Recurrence::kNone) impala.sequence_length = options.policy.max_seq_len;
  return impala;
}

}  // namespace

void Impala::add_options(OptionTable& table, TrainOptions& options) const {
  add_impala_pipeline(table, options.of<rl::ImpalaOptions>());
  add_impala_objective(table, options.of<rl::ImpalaOptions>());
}

void Impala::check(Rules& rules) const {
  if (rules.any_faulty({"num_envs", "shards", "devices", "impala.workers", "impala.splits", "impala.loaders",
                        "impala.buffers", "impala.c_clip", "impala.rho_clip"})) {
    return;
  }
  const rl::ImpalaOptions impala = impala_options(rules.options());
  // The library checks counts against each other in its own words; `impala.` is put before its keys.
  rules.count_faults("impala", rl::count_faults(impala, rules.shards(), rules.replicas()));
  if (!rules.any_faulty({"strategy"}) && rules.replicas() > 1 && sync::depends_on_speed(rules.options().strategy)) {
    rules.fault("strategy",
                concat("all ", rules.replicas(), " replicas of ", title(),
                       "'s learner make each step; use replicated, divided or parameter_server, or one replica"));
  }
  if (!impala.max_policy_lag && impala.beyond_lag == pipeline::BeyondLag::kDrop)
    rules.fault("impala.beyond_lag", "has no effect without impala.max_policy_lag");
  if (rules.options().policy.burn_in > 0 && rules.table().has_effect(rules.table().at("policy.burn_in")))
    rules.fault("policy.burn_in", title() + " brings states up to date by itself: it runs whole fragments; leave it 0");
}

std::vector<OptionCheck> Impala::checks(const CheckPlace& place) const {
  return {
      {"impala.beyond_lag",
       // Dropped batches make the numbers of learner steps differ, and a rank that waits for a step that another does
       // not make would hang.
       [ranks = place.ranks](const TrainOptions& options) {
         if (ranks == 1 || options.of<rl::ImpalaOptions>().beyond_lag == pipeline::BeyondLag::kWait) return;
         throw ConfigError(concat("the learners of ", ranks,
                                  " ranks make equally many steps, and which batches are too old differs from ",
                                  "rank to rank; use wait, or start the run as one process with several --devices"));
       }},
      {"impala.splits", [place](const TrainOptions& options) {
         if (options.of<rl::ImpalaOptions>().splits == 1) return;
         const rl::EnvRegistry known = with_plugins(place.environments, options);
         if (const rl::MultiAgentEntry* agents = known.find_multi_agent(options.env))
           refuse(*agents, "which step in one split so far; use 1");
       }}};
}

BatchSize Impala::batch_size(const TrainOptions& options) const {
  const rl::ImpalaOptions impala = impala_options(options);
  return {.env_steps = impala.batch_rows(), .per_update = impala.batches_per_update};
}

std::string Impala::describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const {
  const rl::ImpalaOptions impala = impala_options(options);
  const int ranks = run.ranks().size(), agents = run.spec().agents;
  return concat(describe_workers(options), ranks > 1 ? " of each rank" : "", " with ", impala.num_envs / impala.workers,
                " environments each", ranks > 1 ? " over all ranks" : "",
                impala.splits > 1 ? concat(" in ", impala.splits, " splits") : "", "; a batch has ",
                agents > 1 ? concat(impala.batch_rows(), " environment steps of ", agents,
                                    " agents in all; a policy's rows are the decisions of its agents")
                           : rows_text(impala.batch_rows(), run),
                ", an update ", impala.batches_per_update, " learner steps");
}

std::string Impala::describe_workers(const TrainOptions& options) const {
  return counted(options.of<rl::ImpalaOptions>().workers, "rollout worker");
}

// Without threads nobody waits for anybody, so there is nothing to advise.
std::string Impala::advice(const TrainOptions& options, const pipeline::PipelineReport& report) const {
  return options.of<rl::ImpalaOptions>().execution == rl::ImpalaExecution::kThreads ? pipeline::advice(report) : "";
}

std::vector<Knob> Impala::knobs(const TrainOptions& given, const Machine& machine) const {
  const auto& impala = given.of<rl::ImpalaOptions>();
  Knob loaders{.word = "loaders",
               .help = "of IMPALA and APPO: the same, up to timing",
               .key = "impala.loaders",
               .texts = powers_up_to(std::min<std::int64_t>(machine.cores, impala.buffers)),
               .learning = Learning::kSameButForTiming,
               .applies = impala.execution == rl::ImpalaExecution::kThreads};
  Knob workers{.word = "workers",
               .help = "of IMPALA and APPO, and so env groups and the size of a batch: other numbers",
               .key = "impala.workers",
               .texts = powers_up_to(machine.cores)};
  return {std::move(loaders), std::move(workers), num_envs_knob(given)};
}

std::unique_ptr<rl::TrainingRun> Impala::make_run(const RunPlan& plan) const {
  auto setup = setup_for<rl::ImpalaSetup>(plan);
  setup.impala = impala_options(plan.options);
  set_loss(plan.options, setup);
  return std::make_unique<rl::ImpalaRun>(std::move(setup));
}

}  // namespace tandem::app
