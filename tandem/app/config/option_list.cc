#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {
namespace {

// A Range holds doubles, and this bound is below 2^63 also as a double.
constexpr double kLargestInteger = 9e18;  // of what is kept in 64 bits

std::vector<std::string> names_of_algorithms(bool (*is_meant)(const Algorithm&)) {
  std::vector<std::string> names;
  for (const auto& algorithm : algorithms()) {
    if (is_meant(*algorithm)) names.push_back(algorithm->name());
  }
  return names;
}

void add_env_options(OptionSection& run, OptionSection& part, TrainOptions& options) {
  run.add("env", options.env, "Environment; `tandem envs` lists them.").flag("--env");
  run.add("env_options", options.env_options,
          "Options of the environment, NAME=VALUE each; `tandem envs NAME` lists them. Instead of a value: "
          "uniform(LOW, HIGH), log_uniform(LOW, HIGH) or choice(VALUE, ...), drawn for each episode, or linear(FROM, "
          "TO), which follows the run. A value that begins with ./ or ../ is a path.")
      .flag("--env-option")
      .kept_absolute(KeptPath::kMarkedValue);
  run.add(
         "env_wrappers", options.env_wrappers,
         "Wrappers around the environment, NAME=VALUE each, the first one nearest to it: frame_stack=4, reward_clip=1; "
         "`tandem envs NAME` lists them.")
      .flag("--env-wrapper");
  part.add("plugins", options.plugins, "Shared libraries that bring environments.").flag("--plugin").kept_absolute();
  part.add(
      "plugin_sha256", options.plugin_sha256,
      "SHA-256 of each plugin. Tandem writes it: what a run folder names is loaded again only where it is the same "
      "file, and yours.");
  part.add("python", options.python,
           "The Python that steps environments of gymnasium:ID; auto: that of the active virtual environment, else "
           "python3 in PATH.")
      .absent_as("auto")
      .kept_absolute(KeptPath::kProgram)
      .flag("--python");
  run.add(
         "init_from", options.init_from,
         "A run, a checkpoint or a .safetensors file whose policies this run begins with; optimizer and counters begin "
         "anew.")
      .flag("--init-from")
      .kept_absolute();
  run.add("init_normalizers", options.init_normalizers,
          "Of init_from: also take its normalisers' statistics, where both normalise the same.");
}

// What a run does when an environment fails, and keeps it from failing with it.
void add_env_fault_options(OptionSection& part, TrainOptions& options) {
  part.add("env_restarts", options.env_restarts,
           "Failures of environments after which one is made anew, with a new episode, on each rank; the next ends the "
           "run.")
      .within(0, kLargestCount);
  part.add("isolate_envs", options.isolate_envs,
           "Each env group lives in a process of its own, which may crash, exit, hang or leak; env_restarts says how "
           "often it is started again. The numbers are the same.")
      .flag("--isolate-envs");
  part.add("env_deadline_seconds", options.env_deadline_seconds,
           "Seconds that a step of such a group may take; then its process hangs, and is started again. Less than the "
           "algorithm's stall_timeout, which ends the run.")
      .within(0.01, 86'400)
      .only_with({"isolate_envs", {"true"}});
  part.add("env_workers", options.env_workers,
           "Processes that step each env group, of an environment in Python; auto: one for each core that the groups "
           "leave, and one for Atari, which has threads. The numbers are the same.")
      .within(1, kLargestCount)
      .absent_as("auto");
  part.add("env_memory_mb", options.env_memory_mb,
           "MiB of memory of its own that such a process may have; then it is killed and started again. 0: no limit.")
      .within(0, kLargestCount)
      .only_with({"isolate_envs", {"true"}});
}

// Keys without a section are those that every algorithm understands.
void add_run_options(OptionTable& table, TrainOptions& options) {
  OptionSection run(table, ""), part(table, "", {}, Lifetime::kPart);
  run.add("algo", options.algo, "Learning algorithm.")
      .one_of(names_of_algorithms([](const Algorithm&) { return true; }))
      .flag("--algo");
  add_env_options(run, part, options);
  part.add("total_steps", options.total_steps, "Environment steps of the run, over all environments.")
      .within(1, kLargestInteger)
      .flag("--total-steps");
  run.add("seed", options.seed, "Decides every random number of the run.").within(0, kLargestInteger).flag("--seed");
  part.add("devices", options.devices,
           "Where the replicas run: cpu:2, cuda:0,1; cpu:auto, one on each core that this process may use.")
      .flag("--devices");
  run.add("shards", options.shards, "Units that the batch is cut into; they, not the devices, decide the numbers.")
      .within(1, kLargestCount)
      .absent_as("auto")
      .flag("--shards");
  part.add("instructions", options.instructions,
           "Vector instructions with which MLP policies act and learn on the CPU; others have other last bits. auto: "
           "the most that the processors of all ranks have; the run keeps them.")
      .absent_as("auto");
  part.add("strategy", options.strategy,
           "Who keeps optimizer state and updates what. The numbers are the same, except with asynchronous, which "
           "waits for nobody, sync_replicas, which makes steps of the first gradients to come, local_steps, whose "
           "replicas make steps of their own between exchanges, and parameter_server whose variables lie on the CPU "
           "beside CUDA replicas.")
      .flag("--strategy");
  part.add("gradient_check", options.gradient_check,
           "each_replica: an error about a gradient that is not finite names the replica, for a pass over all "
           "gradients.");
  run.add("cuda_kernels", options.cuda_kernels,
          "On CUDA devices. deterministic: the same bits in each run, and an error about an operation that has no such "
          "kernel; fastest: runs differ in the last bits.");
  run.add("rng", options.rng, "unordered: a loss may draw from torch's default generator.");
  run.add("num_envs", options.num_envs, "Environments of the run, over all shards.")
      .within(1, kLargestCount)
      .flag("--num-envs");
  add_env_fault_options(part, options);
  run.add("rollout_steps", options.rollout_steps, "Steps of each environment between two updates.")
      .within(1, kLargestCount)
      .flag("--rollout-steps");
  // Words for `algo` come from the algorithms themselves, so a new one is offered without a change here.
  part.add("survivors", options.survivors,
           "When a rank dies, the others end, or go on after the last complete update: take_over, with its env groups "
           "too; shrink, with fewer of them, so that updates have fewer rows until it is replaced (dd_ppo).")
      .flag("--survivors")
      .only_with({"algo", names_of_algorithms([](const Algorithm& one) { return one.can_lose_ranks(); })});
  part.add("deadline_seconds", options.deadline_seconds,
           "Seconds without a sign of life after which a rank is taken for lost. Computing is a sign of life.")
      .within(1, 86'400)
      .flag("--deadline")
      .only_with({"survivors", {"take_over", "shrink"}});
}

void add_multi_agent_options(OptionSection section, MultiAgentSettings& multi_agent) {
  section.add("policies", multi_agent.policies,
              "Names of the policies of an environment with several agents; empty: one for each, under its name.");
  section.add("mapping", multi_agent.mapping,
              "Which policy decides for which agent: AGENT=POLICY, the first that fits; cart_*=POLICY for all names "
              "that begin so; empty: the policy of the agent's name, or the only one.");
  section.add("policies_to_train", multi_agent.policies_to_train,
              "Policies that learn; the others stay as they start. Empty: all learn.");
}

void add_parameter_server_options(OptionSection section, sync::ParameterServerOptions& settings) {
  section.add("servers", settings.servers,
              "Replicas that update variables: all, each some of them by least load in bytes; first, the first one "
              "all.");
  section.add("variables", settings.variables,
              "Where they lie with their optimizer state: devices, on their server's; cpu, in the host's memory, which "
              "spares CUDA devices that state (not of sparse tables); each step waits for two copies, and has the "
              "CPU's bits.");
}

void add_asynchronous_options(OptionSection section, sync::AsynchronousOptions& asynchronous) {
  section.add("scaling", asynchronous.scaling,
              "by_replicas: a replica's gradient counts 1/N of N replicas; none: in full.");
  section
      .add("wait_for_slower", asynchronous.wait_for_slower,
           "Most steps that a replica may be ahead of the slowest; then it waits.")
      .within(0, kLargestCount);
  section
      .add("drop_staler", asynchronous.drop_staler,
           "A gradient is dropped when more updates than this were made since its parameters were read.")
      .within(0, kLargestCount)
      .instead_of("asynchronous.wait_for_slower");
}

void add_sync_replicas_options(OptionSection section, sync::SyncReplicasOptions& settings) {
  section
      .add("replicas_to_aggregate", settings.replicas_to_aggregate,
           "Gradients of a step; fewer than replicas: what comes later is dropped; more: each gives several.")
      .within(1, kLargestCount)
      .absent_as("all");
  section.add("acceptance", settings.acceptance,
              "whole: a step is the mean over rows of the first gradients, each with all its parameters; per_variable: "
              "over gradients, of each parameter on its own, as in TensorFlow.");
  section.add("sparse_mean", settings.sparse_mean,
              "by_count: rows of sparse gradients are divided as all others; by_index: by those that have them.");
  section.add("tokens", settings.tokens,
              "Who may compute for a step: own, each replica once; shared, whoever comes first.");
  section
      .add("initial_tokens", settings.initial_tokens,
           "Of tokens: shared, for the first step, beside one gradient of each replica.")
      .within(0, kLargestCount)
      .absent_as("as_aggregated");
  section.add("rate_scaling", settings.rate_scaling,
              "by_gradients: a step of fewer gradients than usual has a learning rate as much lower.");
  section
      .add("max_replica_grad_norm", settings.max_replica_grad_norm,
           "Each replica's gradient is scaled down to this norm, before the mean is formed.")
      .above(0);
  section
      .add("average_decay", settings.average_decay,
           "Keeps moving averages of the parameters in checkpoints: average = decay x average + (1 - decay) x "
           "parameter.")
      .within(0, 0.999999999);
  section.add("average_of", settings.average_of,
              "Parameters that are averaged, or what their names begin with; empty: all.");
}

void add_local_steps_options(OptionSection section, sync::LocalStepsOptions& settings) {
  section
      .add("every", settings.every,
           "A replica's optimizer steps between two exchanges; the end of an update is one, too.")
      .within(1, kLargestCount);
  section.add("outer", settings.outer,
              "What replicas do with the mean way that they went: average, go on from there (local SGD); nesterov, "
              "take it as the gradient of SGD with momentum (DiLoCo).");
  section.add("outer_lr", settings.outer_lr, "Learning rate of outer: nesterov.")
      .above(0)
      .only_with({"local_steps.outer", {"nesterov"}});
  section.add("outer_momentum", settings.outer_momentum, "Momentum of outer: nesterov.")
      .within(0, 0.999999999)
      .only_with({"local_steps.outer", {"nesterov"}});
  section
      .add("fragments", settings.fragments,
           "Parts of the parameters that are exchanged in turn, each after its own number of steps.")
      .within(1, kLargestCount);
  section
      .add("overlap", settings.overlap,
           "Steps that a replica makes while an exchange travels; less than every / fragments.")
      .within(0, kLargestCount);
  section.add("wire", settings.wire,
              "How ways travel: full; int8 or int4, rounded to that many bits, with what was rounded off sent later.");
}

void add_normalize_options(OptionSection section, NormalizeSettings& normalize) {
  section
      .add("observations", normalize.observations,
           "Bring observations to mean 0 and deviation 1. auto: where all of them are floats of one agent.")
      .absent_as("auto");
  section
      .add("rewards", normalize.rewards,
           "Divide rewards, as learned from, by the deviation of discounted returns. auto: of one agent.")
      .absent_as("auto");
  section.add("clip_observation", normalize.clip_observation, "Normalised observations are cut to +- this.")
      .above(0)
      .only_with({"normalize.observations", {"true", "auto"}});
  section.add("clip_reward", normalize.clip_reward, "Scaled rewards are cut to +- this.")
      .above(0)
      .only_with({"normalize.rewards", {"true", "auto"}});
}

void add_eval_options(OptionTable& table, EvalSettings& eval) {
  OptionSection when(table, "eval", {}, Lifetime::kPart), section(table, "eval", {"eval.every_steps"}, Lifetime::kPart);
  when.add("every_steps", eval.every_steps,
           "Environment steps between two evaluations on environments of their own, which do not change the training; "
           "one more at the end.")
      .within(1, kLargestInteger)
      .flag("--eval-every");
  section.add("episodes", eval.episodes, "Episodes of an evaluation, the same starts each time.")
      .within(1, kLargestCount);
  section.add("deterministic", eval.deterministic, "The most probable actions; false: drawn ones.");
  section.add("max_steps", eval.max_steps, "Steps after which an episode is cut short.").within(1, kLargestCount);
  section.add("stop_at", eval.stop_at, "Mean return of an evaluation that ends the run.");
}

// None of these changes a number of the run.
void add_folder_options(OptionTable& table, TrainOptions& options) {
  OptionSection checkpoint(table, "checkpoint", {}, Lifetime::kPart), log(table, "log", {}, Lifetime::kPart);
  checkpoint.add("every_updates", options.checkpoint.every_updates, "Updates between two checkpoints.").at_least(1);
  checkpoint.add("every_seconds", options.checkpoint.every_seconds, "Seconds between two checkpoints.").at_least(0);
  checkpoint.add("keep_last", options.checkpoint.keep_last, "Checkpoints kept, besides the best one.").at_least(1);
  log.add("every_updates", options.log.every_updates, "Updates between two lines of metrics.jsonl.").at_least(1);
  log.add("dense_lines", options.log.dense_lines,
          "Lines of metrics.jsonl before they get rarer: beyond them, only every second update has one, and half as "
          "many "
          "again each time the run's length doubles.")
      .at_least(1);
  log.add("level", options.log.level, "What log.txt holds.");
  log.add("tensorboard", options.log.tensorboard, "Also write the metrics for TensorBoard.");
  OptionSection call(table, "", {}, Lifetime::kCall);
  call.add("run_dir", options.run_dir, "Folder of the run; auto: a new one in runs/.")
      .absent_as("auto")
      .flag("--run-dir");
  call.add("resume", options.resume, "Whether to go on with the run that the folder holds.").flag("--resume");
  call.add("quiet", options.quiet, "No progress, only errors.").flag("--quiet");
  call.add("profile", options.profile, "Write trace.json and profile.txt: where the time of each thread went.")
      .flag("--profile");
}

}  // namespace

// The order is the order of help and of config.yaml. The keys of a section must follow each other.
OptionTable option_table(TrainOptions& options) {
  OptionTable table;
  // Options of one strategy, which a resume may change with it.
  const auto of_strategy = [&table](const std::string& name) {
    return OptionSection(table, name, {"strategy", {name}}, Lifetime::kPart);
  };
  add_run_options(table, options);
  for (const auto& algorithm : algorithms()) algorithm->add_options(table, options);
  add_policy_keys(table, options.policy);
  add_multi_agent_options({table, "multi_agent"}, options.multi_agent);
  add_parameter_server_options(of_strategy("parameter_server"), options.parameter_server);
  add_asynchronous_options(of_strategy("asynchronous"), options.asynchronous);
  add_sync_replicas_options(of_strategy("sync_replicas"), options.sync_replicas);
  add_local_steps_options(of_strategy("local_steps"), options.local_steps);
  add_normalize_options({table, "normalize"}, options.normalize);
  add_eval_options(table, options.eval);
  add_folder_options(table, options);
  add_policies_keys(table, options);
  return table;
}

}  // namespace tandem::app
