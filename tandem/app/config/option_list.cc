#include "tandem/app/config/dd_ppo_options.h"
#include "tandem/app/config/strategy_options.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {
namespace {

constexpr double kLargestInteger = 9e18;  // of what is kept in 64 bits

const std::vector<std::string> kWithPipeline{"impala", "appo"};  // algorithms that sample and learn at the same time
const std::vector<std::string> kPpos{"ppo", "dd_ppo"};

// Keys without a section are those that every algorithm understands.
void add_run_options(OptionTable& table, TrainOptions& options) {
  table.add("algo", options.algo, "Learning algorithm.").flag("--algo");
  table.add("env", options.env, "Environment; `tandem envs` lists them.").flag("--env");
  table.add("plugins", options.plugins, "Shared libraries that bring environments.").flag("--plugin");
  table.add("total_steps", options.total_steps, "Environment steps of the run, over all environments.")
      .within(1, kLargestInteger)
      .flag("--total-steps")
      .lives(Lifetime::kPart);
  table.add("seed", options.seed, "Decides every random number of the run.").within(0, kLargestInteger).flag("--seed");
  table.add("devices", options.devices, "Where the replicas run: cpu:2, cuda:0,1.")
      .flag("--devices")
      .lives(Lifetime::kPart);
  table.add("shards", options.shards, "Units that the batch is cut into; they, not the devices, decide the numbers.")
      .within(1, kLargestCount)
      .absent_as("auto")
      .flag("--shards");
  table
      .add("instructions", options.instructions,
           "Vector instructions with which MLP policies act and learn on the CPU; others have other last bits. auto: "
           "the most that the processors of all ranks have; the run keeps them.")
      .absent_as("auto")
      .lives(Lifetime::kPart);
  table
      .add(
          "strategy", options.strategy,
          "Who keeps optimizer state and updates what. The numbers are the same, except with asynchronous, which waits "
          "for nobody, sync_replicas, which makes steps of the first gradients to come, and parameter_server whose "
          "variables lie on the CPU beside CUDA replicas.")
      .flag("--strategy")
      .lives(Lifetime::kPart);
  table
      .add("gradient_check", options.gradient_check,
           "each_replica: an error about a gradient that is not finite names the replica, for a pass over all "
           "gradients.")
      .lives(Lifetime::kPart);
  table.add(
      "cuda_kernels", options.cuda_kernels,
      "On CUDA devices. deterministic: the same bits in each run, and an error about an operation that has no such "
      "kernel; fastest: runs differ in the last bits.");
  table.add("rng", options.rng, "unordered: a loss may draw from torch's default generator.");
  table.add("num_envs", options.ppo.num_envs, "Environments of the run, over all shards.")
      .within(1, kLargestCount)
      .flag("--num-envs")
      .instead_of("dd_ppo.envs_per_rank");
  table
      .add("env_restarts", options.env_restarts,
           "Failures of environments after which one is made anew, with a new episode, on each rank; the next ends the "
           "run.")
      .within(0, kLargestCount)
      .lives(Lifetime::kPart);
  table.add("rollout_steps", options.ppo.rollout_steps, "Steps of each environment between two updates.")
      .within(1, kLargestCount)
      .flag("--rollout-steps");
}

void add_survivor_options(OptionTable& table, TrainOptions& options) {
  table
      .add("survivors", options.survivors,
           "When a rank dies, the others end, or go on after the last complete update: take_over, with its env groups "
           "too; shrink, with fewer of them, so that updates have fewer rows until it is replaced (dd_ppo).")
      .flag("--survivors")
      .only_with("algo", kPpos)
      .lives(Lifetime::kPart);
  table
      .add("deadline_seconds", options.deadline_seconds,
           "Seconds without a sign of life after which a rank is taken for lost. Computing is a sign of life.")
      .at_least(1)
      .at_most(86'400)
      .flag("--deadline")
      .only_with("survivors", std::vector<std::string>{"take_over", "shrink"})
      .lives(Lifetime::kPart);
}

void add_ppo_learning(OptionTable& table, rl::PpoOptions& ppo) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", kPpos);
  };
  add("ppo.epochs", ppo.epochs, "Passes over each rollout.").at_least(1).flag("--epochs");
  add("ppo.minibatches", ppo.minibatches, "Optimizer steps of a pass.")
      .at_least(1)
      .flag("--minibatches")
      .instead_of("ppo.minibatch_size")
      .instead_of("dd_ppo.minibatch_size_per_rank");
  add("ppo.minibatch_size", ppo.minibatch_size, "Rows of an optimizer step, over all shards.")
      .at_least(1)
      .flag("--minibatch-size")
      .instead_of("ppo.minibatches")
      .instead_of("dd_ppo.minibatch_size_per_rank");
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

void add_appo_options(OptionTable& table, rl::AppoOptions& appo) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", "appo");
  };
  add("appo.clip_range", appo.clip_range, "The ratio of probabilities counts up to 1 +- this.").above(0);
  add("appo.kl_coef", appo.kl_coef, "Weight of the divergence from the target network.").at_least(0);
  add("appo.target_update_steps", appo.target_update_steps,
      "Learner steps after which the target network takes the policy's weights.")
      .within(1, kLargestCount);
}

void add_policy_options(OptionTable& table, PolicySettings& policy) {
  constexpr double kWidestLayer = 1 << 16;
  table.add("policy.hidden", policy.hidden, "Units of each hidden layer.").within(1, kWidestLayer);
  table.add("policy.activation", policy.activation, "Between the layers.")
      .one_of({"tanh", "relu", "silu", "gelu", "elu"});
  table.add("policy.trunks", policy.trunks, "Whether actor and critic share their hidden layers.")
      .one_of({"separate", "shared"});
  table
      .add("policy.head", policy.head,
           "Distribution of actions; auto: categorical, multi_categorical or normal, as the actions are.")
      .one_of({"categorical", "multi_categorical", "normal", "squashed_normal", "state_dependent_noise"})
      .absent_as("auto");
  table.add("policy.log_std_init", policy.log_std_init, "First logarithm of the actions' standard deviation.")
      .within(-20, 5);
  table.add("policy.hidden_gain", policy.hidden_gain, "Scale of the hidden layers' first, orthogonal weights.")
      .above(0);
  table.add("policy.policy_gain", policy.policy_gain, "The same of the action head.").above(0);
  table.add("policy.value_gain", policy.value_gain, "The same of the value head.").above(0);
  table
      .add("policy.sde_sample_freq", policy.sde_sample_freq,
           "Steps that state_dependent_noise keeps its noise; 0: a whole rollout.")
      .at_least(0)
      .only_with("policy.head", "state_dependent_noise");
  table.add("policy.torso", policy.torso.kind,
            "Convolutions in front of the hidden layers, for images: auto, nature_cnn for sides of 36 pixels or more, "
            "residual for smaller ones.");
  table.add("policy.channels", policy.torso.channels, "Channels of each section, which halves the image.")
      .within(1, 4096)
      .only_with("policy.torso", "residual");
  table.add("policy.residual_blocks", policy.torso.blocks, "Residual blocks of each section.")
      .within(0, 64)
      .only_with("policy.torso", "residual");
  table.add("policy.recurrent", policy.recurrent, "A layer behind the hidden ones that remembers what was seen.");
  const auto add_recurrent = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("policy.recurrent", std::vector<std::string>{"lstm", "gru"});
  };
  add_recurrent("policy.recurrent_size", policy.recurrent_size, "Its units.").within(1, kWidestLayer);
  add_recurrent("policy.max_seq_len", policy.max_seq_len, "Steps that gradients flow back through it.")
      .within(1, kLargestCount);
  add_recurrent("policy.burn_in", policy.burn_in,
                "Steps before those that only bring its state up to date, with the parameters of the moment.")
      .within(0, kLargestCount);
}

void add_multi_agent_options(OptionTable& table, MultiAgentSettings& multi_agent) {
  table.add("multi_agent.policies", multi_agent.policies,
            "Names of the policies of an environment with several agents; empty: one for each, under its name.");
  table.add("multi_agent.mapping", multi_agent.mapping,
            "Which policy decides for which agent: AGENT=POLICY, the first that fits; cart_*=POLICY for all names that "
            "begin so; empty: the policy of the agent's name, or the only one.");
  table.add("multi_agent.policies_to_train", multi_agent.policies_to_train,
            "Policies that learn; the others stay as they start. Empty: all learn.");
}

void add_normalize_options(OptionTable& table, NormalizeSettings& normalize) {
  table.add("normalize.observations", normalize.observations, "Bring observations to mean 0 and deviation 1.");
  table.add("normalize.rewards", normalize.rewards,
            "Divide rewards, as learned from, by the deviation of discounted returns.");
  table.add("normalize.clip_observation", normalize.clip_observation, "Normalised observations are cut to +- this.")
      .above(0)
      .only_with("normalize.observations", "true");
  table.add("normalize.clip_reward", normalize.clip_reward, "Scaled rewards likewise.")
      .above(0)
      .only_with("normalize.rewards", "true");
}

void add_folder_options(OptionTable& table, TrainOptions& options) {
  table.add("checkpoint.every_updates", options.checkpoint.every_updates, "Updates between two checkpoints.")
      .at_least(1)
      .lives(Lifetime::kPart);
  table.add("checkpoint.every_seconds", options.checkpoint.every_seconds, "Seconds between two checkpoints.")
      .at_least(0)
      .lives(Lifetime::kPart);
  table.add("checkpoint.keep_last", options.checkpoint.keep_last, "Checkpoints kept, besides the best one.")
      .at_least(1)
      .lives(Lifetime::kPart);
  table.add("log.every_updates", options.log.every_updates, "Updates between two lines of metrics.jsonl.")
      .at_least(1)
      .lives(Lifetime::kPart);
  table.add("log.level", options.log.level, "What log.txt holds.").lives(Lifetime::kPart);
  table.add("log.tensorboard", options.log.tensorboard, "Also write the metrics for TensorBoard.")
      .lives(Lifetime::kPart);
  table.add("run_dir", options.run_dir, "Folder of the run; auto: a new one in runs/.")
      .absent_as("auto")
      .flag("--run-dir")
      .lives(Lifetime::kCall);
  table.add("resume", options.resume, "Whether to go on with the run that the folder holds.")
      .flag("--resume")
      .lives(Lifetime::kCall);
  table.add("quiet", options.quiet, "No progress, only errors.").flag("--quiet").lives(Lifetime::kCall);
  table.add("profile", options.profile, "Write trace.json and profile.txt: where the time of each thread went.")
      .flag("--profile")
      .lives(Lifetime::kCall);
}

}  // namespace

OptionTable option_table(TrainOptions& options) {
  OptionTable table;
  add_run_options(table, options);
  add_survivor_options(table, options);
  add_ppo_learning(table, options.ppo);
  add_ppo_objective(table, options.ppo);
  add_dd_ppo_options(table, options.dd_ppo);
  add_impala_pipeline(table, options.impala);
  add_impala_objective(table, options.impala);
  add_appo_options(table, options.appo);
  add_policy_options(table, options.policy);
  add_multi_agent_options(table, options.multi_agent);
  add_strategy_options(table, options);
  add_normalize_options(table, options.normalize);
  add_folder_options(table, options);
  return table;
}

}  // namespace tandem::app
