// IMPALA and APPO to the program, in the order of Algorithm's functions, as ppo.cc. IMPALA's batch is what one rollout
// worker brings, so the number of workers decides its size.
#include <algorithm>

#include "tandem/app/algo/compute_rules.h"
#include "tandem/app/algo/native.h"
#include "tandem/app/algo/schedules.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/pipeline/pipeline_stats.h"
#include "tandem/rl/algo/impala/impala_run.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<rl::ImpalaExecution> = words_up_to<rl::ImpalaExecution::kInline>("threads", "inline");
template <>
inline constexpr auto kChoices<pipeline::BeyondLag> = words_up_to<pipeline::BeyondLag::kDrop>("wait", "drop");

namespace {

void add_impala_pipeline(OptionSection section, rl::ImpalaOptions& impala) {
  section.add("execution", impala.execution,
              "threads: sampling and learning at the same time; inline: in turn on one thread, the same in every run.");
  section
      .add("workers", impala.workers, "Rollout workers of each rank, each with as many environments, on a thread each.")
      .within(1, 1024)
      .flag("--workers");
  section
      .add("splits", impala.splits,
           "Parts of a worker's environments of each shard, which take turns on threads of their own where they are "
           "several: while one steps, the policy acts for another.")
      .within(1, 64);
  section.add("queue", impala.queue, "Batches that wait for the learner before the workers must.")
      .within(1, kLargestCount);
  section.add("buffers", impala.buffers, "Batches beside the learner, that which it learns from included.")
      .within(1, 1024);
  section.add("loaders", impala.loaders, "Threads that copy batches there; at most as many as buffers.")
      .within(1, 1024);
  section.add("passes", impala.passes, "Of the learner over each batch.").within(1, kLargestCount);
  section
      .add("max_policy_lag", impala.max_policy_lag,
           "Most learner steps between the weights that a batch was made with and its first use.")
      .within(0, kLargestCount);
  section.add(
      "beyond_lag", impala.beyond_lag,
      "For that bound: wait, workers begin a batch only when it cannot become too old; drop, such batches are not "
      "used.");
  section.add("batches_per_update", impala.batches_per_update, "Learner steps between two updates of the metrics.")
      .within(1, kLargestCount);
  section
      .add("learner_queue_timeout", impala.learner_queue_timeout, "Seconds without a batch, after which the run fails.")
      .within(1, kLargestCount);
  section
      .add("stall_timeout", impala.stall_timeout,
           "Seconds that a rollout, the copy of a batch or a learner step may take, after which the run fails; a "
           "learner step of several ranks as long again as it may wait for the others.")
      .within(1, kLargestCount);
}

void add_impala_objective(OptionSection section, rl::ImpalaOptions& impala) {
  section.add("learning_rate", impala.learning_rate, "Of Adam.").above(0).at_most(1).lives(Lifetime::kStage);
  section.add("learning_rate_schedule", impala.learning_rate_schedule, kScheduleHelp).lives(Lifetime::kStage);
  section.add("adam_eps", impala.adam_eps, "Added to the root of Adam's second moment.").above(0).at_most(1);
  section.add("max_grad_norm", impala.max_grad_norm, "Gradients are scaled down to this norm.")
      .above(0)
      .lives(Lifetime::kStage);
  section.add("gamma", impala.gamma, "Discount of rewards a step later.").within(0, 1);
  section.add("time_limit", impala.time_limit,
              "Worth of the rest of an episode that was cut short: bootstrap, its value; terminal, nothing.");
  section.add("rho_clip", impala.rho_clip, "Ratios of probabilities that correct a step count up to this.").above(0);
  section.add("c_clip", impala.c_clip, "Those that carry a correction to the steps before, up to this.").above(0);
  section.add("entropy_coef", impala.entropy_coef, "Weight of the entropy bonus.").at_least(0).lives(Lifetime::kStage);
  section.add("value_coef", impala.value_coef, "Weight of the value's squared error.").at_least(0);
  section.add(
      "kernel", impala.kernel,
      "auto: fused kernels for losses and gradients of MLP policies, on a CUDA device as recorded, else as off; off: "
      "tensor operations and autograd; recorded: these as a CUDA graph, or an error.");
  section.add("compute", impala.compute, kComputeHelp);
}

// Returns the algorithm's own options with the counts that every algorithm has, and the sequences that the policy
// needs.
rl::ImpalaOptions impala_options(const TrainOptions& options) {
  rl::ImpalaOptions impala = options.of<rl::ImpalaOptions>();
  impala.num_envs = options.num_envs;
  impala.rollout_steps = options.rollout_steps;
  if (any_remembers(options)) {
    impala.sequence_length = options.policy.max_seq_len;
    impala.burn_in = options.policy.burn_in;
  }
  return impala;
}

// IMPALA's batch is what one rollout worker brings; batches_per_update learner steps make one line of metrics. It holds
// no state of a run: options come in with each call.
class Impala : public Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "impala"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    const OptionSection section(table, "impala", {"algo", {"impala", "appo"}});
    add_impala_pipeline(section, options.of<rl::ImpalaOptions>());
    add_impala_objective(section, options.of<rl::ImpalaOptions>());
  }

  void check(Rules& rules) const override {
    check_learning_rates(rules, "impala.learning_rate_schedule",
                         rules.options().of<rl::ImpalaOptions>().learning_rate_schedule);
    check_compute(rules, "impala", rules.options().of<rl::ImpalaOptions>().kernel,
                  rules.options().of<rl::ImpalaOptions>().compute);
    if (rules.any_faulty({"num_envs", "shards", "devices", "impala.workers", "impala.splits", "impala.loaders",
                          "impala.buffers", "impala.c_clip", "impala.rho_clip"})) {
      return;
    }
    const rl::ImpalaOptions impala = impala_options(rules.options());
    // The library checks counts against each other in its own words; `impala.` is put before its keys.
    rules.count_faults("impala", rl::count_faults(impala, rules.shards(), rules.replicas()));
    if (!rules.any_faulty({"strategy"}) && rules.replicas() > 1 && !sync::is_lockstep(rules.options().strategy)) {
      rules.fault("strategy",
                  concat("all ", rules.replicas(), " replicas of ", title(),
                         "'s learner make each step; use replicated, divided or parameter_server, or one replica"));
    }
    if (!impala.max_policy_lag && impala.beyond_lag == pipeline::BeyondLag::kDrop)
      rules.fault("impala.beyond_lag", "has no effect without impala.max_policy_lag");
    const int burn_in = rules.options().policy.burn_in, steps = rules.options().rollout_steps;
    if (burn_in >= steps && rules.table().has_effect(rules.table().at("policy.burn_in")))
      rules.fault("policy.burn_in", concat("leaves none of a rollout's ", steps, " steps to learn from; ", title(),
                                           " takes its first steps, so it must be below rollout_steps"));
  }

  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override {
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
        refuse_several(place.environments, "policy.recurrent", any_remembers,
                       "of which IMPALA and APPO train no policies that remember so far; ppo and dd_ppo do"),
        refuse_several(
            place.environments, "impala.splits",
            [](const TrainOptions& options) { return options.of<rl::ImpalaOptions>().splits != 1; },
            "which step in one split so far; use 1")};
  }

  [[nodiscard]] BatchSize batch_size(const TrainOptions& options) const override {
    const rl::ImpalaOptions impala = impala_options(options);
    return {.env_steps = impala.batch_rows(), .per_update = impala.batches_per_update};
  }

  [[nodiscard]] std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const override {
    const rl::ImpalaOptions impala = impala_options(options);
    const int ranks = run.ranks().size(), agents = run.spec().agents;
    return concat(describe_workers(options), ranks > 1 ? " of each rank" : "", " with ",
                  impala.num_envs / impala.workers, " environments each", ranks > 1 ? " over all ranks" : "",
                  impala.splits > 1 ? concat(" in ", impala.splits, " splits") : "", "; a batch has ",
                  agents > 1 ? concat(impala.batch_rows(), " environment steps of ", agents,
                                      " agents in all; a policy's rows are the decisions of its agents")
                             : rows_text(impala.batch_rows(), run),
                  ", an update ", impala.batches_per_update, " learner steps");
  }

  [[nodiscard]] int env_groups_of_shard(const TrainOptions& options) const override {
    const auto& impala = options.of<rl::ImpalaOptions>();
    return impala.workers * impala.splits;
  }

  [[nodiscard]] std::string describe_workers(const TrainOptions& options) const override {
    return counted(options.of<rl::ImpalaOptions>().workers, "rollout worker");
  }

  // Without threads nobody waits for anybody, so there is nothing to advise.
  [[nodiscard]] std::string advice(const TrainOptions& options, const pipeline::PipelineReport& report) const override {
    return options.of<rl::ImpalaOptions>().execution == rl::ImpalaExecution::kThreads ? pipeline::advice(report) : "";
  }

  [[nodiscard]] std::vector<Knob> knobs(const TrainOptions& given, const Machine& machine) const override {
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

  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const override {
    auto setup = setup_for<rl::ImpalaSetup>(plan);
    setup.impala = impala_options(plan.options);
    set_loss(plan.options, setup);
    return std::make_unique<rl::ImpalaRun>(std::move(setup));
  }

 protected:
  // The algorithm's name as people write it.
  [[nodiscard]] virtual std::string title() const { return "IMPALA"; }
  // Puts another objective than V-trace's into the setup; called by make_run() when all other fields are set.
  virtual void set_loss(const TrainOptions&, rl::ImpalaSetup&) const {}
};

// IMPALA's pipeline with PPO's objective and a target network. Rules, checks, batch and knobs are IMPALA's as they are:
// keys below "impala." are APPO's as well, and "appo." holds only the objective.
class Appo final : public Impala {
 public:
  [[nodiscard]] std::string name() const override { return "appo"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    auto& appo = options.of<rl::AppoOptions>();
    OptionSection section(table, "appo", {"algo", {"appo"}});
    section.add("clip_range", appo.clip_range, "The ratio of probabilities counts up to 1 +- this.")
        .above(0)
        .lives(Lifetime::kStage);
    section.add("kl_coef", appo.kl_coef, "Weight of the divergence from the target network.").at_least(0);
    section
        .add("target_update_steps", appo.target_update_steps,
             "Learner steps after which the target network takes the policy's weights.")
        .within(1, kLargestCount);
  }

 private:
  [[nodiscard]] std::string title() const override { return "APPO"; }
  void set_loss(const TrainOptions& options, rl::ImpalaSetup& setup) const override {
    setup.appo = options.of<rl::AppoOptions>();
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_impala() { return std::make_unique<Impala>(); }
std::unique_ptr<const Algorithm> make_appo() { return std::make_unique<Appo>(); }

}  // namespace tandem::app
