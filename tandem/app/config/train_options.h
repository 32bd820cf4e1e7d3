// app/config/train_options.h: everything that decides a training run, as plain values.
//
// option_list.cc describes each field, and is the one place that knows the keys and flags.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/config/choices.h"
#include "tandem/app/config/option_table.h"
#include "tandem/base/cpu.h"
#include "tandem/device/cuda_kernels.h"
#include "tandem/pipeline/straggler_rule.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/policy/torso_options.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::app {

enum class Algorithm { kPpo, kDdPpo, kImpala, kAppo };

/// What to do with a run folder that holds a run already.
enum class Resume {
  kNever,  // refuse it
  kAuto,   // go on with it, or start anew where there is none
  kMust,   // go on with it, or refuse
};

/// Where random operations of a loss draw from; see model/shard_random.h.
enum class Rng { kShards, kUnordered };

enum class LogLevel { kDebug, kInfo, kWarning };

/// The layer that remembers, behind the hidden ones.
enum class Recurrence { kNone, kLstm, kGru };

/// The actor and the critic; as rl::MlpPolicyOptions, rl::RecurrentPolicyOptions and rl::ActorOptions, whose words
/// these are.
struct PolicySettings {
  std::vector<std::int64_t> hidden = {64, 64};
  std::string activation = "tanh";
  std::string trunks = "separate";
  std::optional<std::string> head = {};  // the action family; nothing: the usual one of the action space
  double log_std_init = 0;
  double hidden_gain = 1.4142135623730951, policy_gain = 0.01, value_gain = 1;
  std::int64_t sde_sample_freq = 4;  // steps that noise is held; of the head state_dependent_noise
  rl::TorsoOptions torso = {};
  Recurrence recurrent = Recurrence::kNone;
  std::int64_t recurrent_size = 64;
  int max_seq_len = 32, burn_in = 0;  // as rl::SequenceOptions
};

/// As sync::ParameterServerOptions.
struct ParameterServerSettings {
  sync::Servers servers = sync::Servers::kAll;
  sync::Variables variables = sync::Variables::kOnDevices;
};

/// As sync::AsynchronousOptions; at most one of the two bounds.
struct AsynchronousSettings {
  sync::Scaling scaling = sync::Scaling::kByReplicas;
  std::optional<std::int64_t> wait_for_slower = {};  // steps
  std::optional<std::int64_t> drop_staler = {};      // updates
};

/// As sync::SyncReplicasOptions.
struct SyncReplicasSettings {
  std::optional<std::int64_t> replicas_to_aggregate = {};  // nothing: as many as replicas
  sync::Acceptance acceptance = sync::Acceptance::kWhole;
  sync::SparseMean sparse_mean = sync::SparseMean::kByCount;
  sync::Tokens tokens = sync::Tokens::kOwn;
  std::optional<std::int64_t> initial_tokens = {};  // of shared tokens
  sync::RateScaling rate_scaling = sync::RateScaling::kNone;
  std::optional<double> max_replica_grad_norm = {};
  std::optional<double> average_decay = {};  // nothing: no moving averages
  std::vector<std::string> average_of = {};  // empty: all parameters
};

/// What the ranks that are left do when one has died.
enum class Survivors {
  kEnd,       // they end too
  kTakeOver,  // they go on after the last complete update, with all env groups
  kShrink,    // likewise, with fewer: none makes more environment steps than before
};

/// What DD-PPO has besides PPO. Counts of a rank (a process of the run) become the run's totals before it starts, and
/// the totals are what it records: it stays the same run on any number of ranks.
struct DdPpoSettings {
  std::optional<std::int64_t> envs_per_rank = {};            // instead of num_envs
  std::optional<std::int64_t> minibatch_size_per_rank = {};  // instead of ppo.minibatch_size and ppo.minibatches
  pipeline::StragglerOptions stragglers = {};
  std::optional<std::filesystem::path> replay = {};  // a record of rollouts that this run follows
};

/// As rl::NormalizerOptions.
struct NormalizeSettings {
  bool observations = false, rewards = false;
  double clip_observation = 10, clip_reward = 10;
};

/// Of environments of several agents; as rl::PolicyMapOptions, with the rules of rl::mapping_of().
struct MultiAgentSettings {
  std::vector<std::string> policies = {}, mapping = {}, policies_to_train = {};
};

/// When checkpoints are written: after the one or the other span, whichever ends first; and always at the end.
struct CheckpointSettings {
  std::optional<std::int64_t> every_updates = {};
  std::optional<double> every_seconds = 60;
  std::int64_t keep_last = 3;
};

struct LogSettings {
  std::int64_t every_updates = 1;  // updates from one line of metrics.jsonl to the next
  LogLevel level = LogLevel::kInfo;
  bool tensorboard = false;  // also write the metrics as TensorBoard reads them
};

struct TrainOptions {
  Algorithm algo = Algorithm::kPpo;
  std::string env = {};
  std::vector<std::filesystem::path> plugins = {};
  std::int64_t total_steps = 500'000;  // environment steps over all environments
  std::int64_t seed = 0;
  std::string devices = "cpu";
  std::optional<std::int64_t> shards = {};          // nothing: as many as replicas
  std::optional<InstructionSet> instructions = {};  // of MLP policies' loops; nothing: the most that all ranks have
  std::int64_t env_restarts = 0;                    // failed environments that are made anew; then one ends the run
  Survivors survivors = Survivors::kEnd;
  double deadline_seconds = 30;  // without a sign of life, after which survivors take a rank for lost
  sync::StrategyKind strategy = sync::StrategyKind::kReplicated;
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  ParameterServerSettings parameter_server = {};
  AsynchronousSettings asynchronous = {};
  SyncReplicasSettings sync_replicas = {};
  Rng rng = Rng::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  rl::PpoOptions ppo = {};        // its num_envs and rollout_steps are those of every algorithm; but for sequences
  rl::ImpalaOptions impala = {};  // but for those two, which impala_options() fills in; also of APPO
  rl::AppoOptions appo = {};
  DdPpoSettings dd_ppo = {};
  PolicySettings policy = {};
  MultiAgentSettings multi_agent = {};
  NormalizeSettings normalize = {};
  CheckpointSettings checkpoint = {};
  LogSettings log = {};

  std::optional<std::filesystem::path> run_dir = {};  // nothing: a new folder in runs/
  Resume resume = Resume::kNever;
  bool quiet = false;
  bool profile = false;
};

/// Whether it is PPO, alone or as DD-PPO: in turn, all replicas sample, and all learn from that.
[[nodiscard]] inline bool is_ppo(Algorithm algo) { return algo == Algorithm::kPpo || algo == Algorithm::kDdPpo; }

/// The numbers of PPO, with what the policy asks for.
[[nodiscard]] inline rl::PpoOptions ppo_options(const TrainOptions& options) {
  rl::PpoOptions ppo = options.ppo;
  if (options.policy.recurrent != Recurrence::kNone)
    ppo.sequences = {.length = options.policy.max_seq_len, .burn_in = options.policy.burn_in};
  return ppo;
}

/// The numbers of IMPALA and APPO, with those that every algorithm has and what the policy asks for.
[[nodiscard]] inline rl::ImpalaOptions impala_options(const TrainOptions& options) {
  rl::ImpalaOptions impala = options.impala;
  impala.num_envs = options.ppo.num_envs;
  impala.rollout_steps = options.ppo.rollout_steps;
  if (options.policy.recurrent != Recurrence::kNone) impala.sequence_length = options.policy.max_seq_len;
  return impala;
}

/// Environment steps that come to a learner at once; at least, where episodes are completed.
[[nodiscard]] inline std::int64_t batch_rows(const TrainOptions& options) {
  return is_ppo(options.algo) ? options.ppo.batch_rows() : impala_options(options).batch_rows();
}

/// The table of all options, bound to `options`, which must outlive it.
[[nodiscard]] OptionTable option_table(TrainOptions& options);

template <>
struct Choices<Algorithm> {
  static constexpr std::array kAll{
      Choice<Algorithm>{Algorithm::kPpo, "ppo"}, Choice<Algorithm>{Algorithm::kDdPpo, "dd_ppo"},
      Choice<Algorithm>{Algorithm::kImpala, "impala"}, Choice<Algorithm>{Algorithm::kAppo, "appo"}};
};
template <>
struct Choices<Recurrence> {
  using Value = Recurrence;
  static constexpr std::array kAll{Choice<Value>{Value::kNone, "none"}, Choice<Value>{Value::kLstm, "lstm"},
                                   Choice<Value>{Value::kGru, "gru"}};
};
template <>
struct Choices<Resume> {
  static constexpr std::array kAll{Choice<Resume>{Resume::kNever, "never"}, Choice<Resume>{Resume::kAuto, "auto"},
                                   Choice<Resume>{Resume::kMust, "must"}};
};
template <>
struct Choices<Rng> {
  static constexpr std::array kAll{Choice<Rng>{Rng::kShards, "shards"}, Choice<Rng>{Rng::kUnordered, "unordered"}};
};
template <>
struct Choices<InstructionSet> {
  using Set = InstructionSet;
  static constexpr std::array kAll{Choice<Set>{Set::kPortable, "portable"}, Choice<Set>{Set::kAvx2, "avx2"},
                                   Choice<Set>{Set::kAvx512, "avx512"}};
};
template <>
struct Choices<device::CudaKernels> {
  using Kernels = device::CudaKernels;
  static constexpr std::array kAll{Choice<Kernels>{Kernels::kDeterministic, "deterministic"},
                                   Choice<Kernels>{Kernels::kFastest, "fastest"}};
};
template <>
struct Choices<sync::StrategyKind> {
  using Kind = sync::StrategyKind;
  static constexpr std::array kAll{
      Choice<Kind>{Kind::kReplicated, "replicated"}, Choice<Kind>{Kind::kDivided, "divided"},
      Choice<Kind>{Kind::kParameterServer, "parameter_server"}, Choice<Kind>{Kind::kAsynchronous, "asynchronous"},
      Choice<Kind>{Kind::kSyncReplicas, "sync_replicas"}};
};
template <>
struct Choices<sync::Servers> {
  static constexpr std::array kAll{Choice<sync::Servers>{sync::Servers::kAll, "all"},
                                   Choice<sync::Servers>{sync::Servers::kFirst, "first"}};
};
template <>
struct Choices<sync::Variables> {
  using Value = sync::Variables;
  static constexpr std::array kAll{Choice<Value>{Value::kOnDevices, "devices"}, Choice<Value>{Value::kOnCpu, "cpu"}};
};
template <>
struct Choices<sync::Scaling> {
  using Value = sync::Scaling;
  static constexpr std::array kAll{Choice<Value>{Value::kByReplicas, "by_replicas"},
                                   Choice<Value>{Value::kNone, "none"}};
};
template <>
struct Choices<sync::Acceptance> {
  using Value = sync::Acceptance;
  static constexpr std::array kAll{Choice<Value>{Value::kWhole, "whole"},
                                   Choice<Value>{Value::kPerVariable, "per_variable"}};
};
template <>
struct Choices<sync::SparseMean> {
  using Value = sync::SparseMean;
  static constexpr std::array kAll{Choice<Value>{Value::kByCount, "by_count"},
                                   Choice<Value>{Value::kByIndex, "by_index"}};
};
template <>
struct Choices<sync::Tokens> {
  static constexpr std::array kAll{Choice<sync::Tokens>{sync::Tokens::kOwn, "own"},
                                   Choice<sync::Tokens>{sync::Tokens::kShared, "shared"}};
};
template <>
struct Choices<sync::RateScaling> {
  using Value = sync::RateScaling;
  static constexpr std::array kAll{Choice<Value>{Value::kNone, "none"},
                                   Choice<Value>{Value::kByGradients, "by_gradients"}};
};
template <>
struct Choices<LogLevel> {
  static constexpr std::array kAll{Choice<LogLevel>{LogLevel::kDebug, "debug"},
                                   Choice<LogLevel>{LogLevel::kInfo, "info"},
                                   Choice<LogLevel>{LogLevel::kWarning, "warning"}};
};
template <>
struct Choices<rl::Schedule> {
  static constexpr std::array kAll{Choice<rl::Schedule>{rl::Schedule::kConstant, "constant"},
                                   Choice<rl::Schedule>{rl::Schedule::kLinear, "linear"}};
};
template <>
struct Choices<rl::BatchMode> {
  using Mode = rl::BatchMode;
  static constexpr std::array kAll{Choice<Mode>{Mode::kTruncateEpisodes, "truncate_episodes"},
                                   Choice<Mode>{Mode::kCompleteEpisodes, "complete_episodes"}};
};
template <>
struct Choices<rl::TimeLimit> {
  static constexpr std::array kAll{Choice<rl::TimeLimit>{rl::TimeLimit::kBootstrap, "bootstrap"},
                                   Choice<rl::TimeLimit>{rl::TimeLimit::kTerminal, "terminal"}};
};
template <>
struct Choices<rl::ImpalaExecution> {
  using Value = rl::ImpalaExecution;
  static constexpr std::array kAll{Choice<Value>{Value::kThreads, "threads"}, Choice<Value>{Value::kInline, "inline"}};
};
template <>
struct Choices<pipeline::Stragglers> {
  using Value = pipeline::Stragglers;
  static constexpr std::array kAll{Choice<Value>{Value::kWaitAll, "wait_all"},
                                   Choice<Value>{Value::kPreempt, "preempt"},
                                   Choice<Value>{Value::kTimeOptimal, "time_optimal"}};
};
template <>
struct Choices<Survivors> {
  static constexpr std::array kAll{Choice<Survivors>{Survivors::kEnd, "end"},
                                   Choice<Survivors>{Survivors::kTakeOver, "take_over"},
                                   Choice<Survivors>{Survivors::kShrink, "shrink"}};
};
template <>
struct Choices<pipeline::BeyondLag> {
  using Value = pipeline::BeyondLag;
  static constexpr std::array kAll{Choice<Value>{Value::kWait, "wait"}, Choice<Value>{Value::kDrop, "drop"}};
};
template <>
struct Choices<sync::GradientCheck> {
  static constexpr std::array kAll{Choice<sync::GradientCheck>{sync::GradientCheck::kSum, "sum"},
                                   Choice<sync::GradientCheck>{sync::GradientCheck::kEachReplica, "each_replica"}};
};
template <>
struct Choices<rl::LossKernel> {
  static constexpr std::array kAll{Choice<rl::LossKernel>{rl::LossKernel::kAuto, "auto"},
                                   Choice<rl::LossKernel>{rl::LossKernel::kRecorded, "recorded"},
                                   Choice<rl::LossKernel>{rl::LossKernel::kOff, "off"}};
};
template <>
struct Choices<rl::Torso> {
  static constexpr std::array kAll{
      Choice<rl::Torso>{rl::Torso::kAuto, "auto"}, Choice<rl::Torso>{rl::Torso::kNone, "none"},
      Choice<rl::Torso>{rl::Torso::kNatureCnn, "nature_cnn"}, Choice<rl::Torso>{rl::Torso::kResidual, "residual"}};
};
template <>
struct Choices<rl::AdvantageNormalization> {
  using Value = rl::AdvantageNormalization;
  static constexpr std::array kAll{Choice<Value>{Value::kMinibatch, "minibatch"}, Choice<Value>{Value::kBatch, "batch"},
                                   Choice<Value>{Value::kNone, "none"}};
};

}  // namespace tandem::app
