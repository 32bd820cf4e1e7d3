// app/config/train_options.h: everything that decides a training run, as plain values.
//
// option_list.cc describes each field, and is the one place that knows the keys and flags; those of an algorithm are in
// its own file (algorithm.h).
//
// Plain values: copyable, with defaults that make a run once `env` is named. Enumerations and structs of the library
// are used where it has them; a Settings struct names the library struct that its fields become. Nothing here is
// checked: limits are in option_list.cc, rules in option_rules.cc.
#pragma once
#include <any>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "tandem/app/config/choices.h"
#include "tandem/app/config/option_table.h"
#include "tandem/base/cpu.h"
#include "tandem/device/cuda_kernels.h"
#include "tandem/pipeline/straggler_rule.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/policy/policy_options.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::app {

/// Whether to go on with a run that the run folder holds already.
/// A folder that holds another run is never overwritten, whatever the word.
enum class Resume {
  kNever,  // refuse it
  kAuto,   // go on with it, or start anew where there is none
  kMust,   // go on with it, or refuse
};

/// Where random operations of a loss draw from; see model/shard_random.h.
/// kUnordered lets results depend on the order in which threads draw.
enum class Rng { kShards, kUnordered };

/// The least severity that log.txt takes.
enum class LogLevel { kDebug, kInfo, kWarning };

/// The layer that remembers, behind the hidden ones.
enum class Recurrence { kNone, kLstm, kGru };

/// The actor and the critic; as rl::MlpPolicyOptions, rl::RecurrentPolicyOptions and rl::ActorOptions, whose words
/// these are.
/// Gains are factors of the orthogonal first weights; sizes are units of a layer.
struct PolicySettings {
  /// One hidden layer for each element, from the observation on.
  std::vector<std::int64_t> hidden = {64, 64};
  std::string activation = "tanh";
  std::string trunks = "separate";
  std::optional<std::string> head = {};  // the action family; nothing: the usual one of the action space
  /// The natural logarithm of the standard deviation that continuous actions begin with.
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

/// The end or the going on of the other ranks when one has died.
enum class Survivors {
  kEnd,       // they end too
  kTakeOver,  // they go on after the last complete update, with all env groups
  kShrink,    // likewise, with fewer: none makes more environment steps than before
};

/// As rl::NormalizerOptions.
/// Clips are in units of the normalised values.
struct NormalizeSettings {
  bool observations = false, rewards = false;
  double clip_observation = 10, clip_reward = 10;
};

/// The policies of environments with several agents; as rl::PolicyMapOptions, with the rules of rl::mapping_of().
/// All empty: each agent has a policy of its own name, and all of them learn.
struct MultiAgentSettings {
  std::vector<std::string> policies = {}, mapping = {}, policies_to_train = {};
};

/// When checkpoints are written: after the one or the other span, whichever ends first; and always at the end.
/// Both spans may be absent; then only the end of a run is saved.
struct CheckpointSettings {
  std::optional<std::int64_t> every_updates = {};
  std::optional<double> every_seconds = 60;
  /// How many of the newest checkpoints stay; the best one stays besides.
  std::int64_t keep_last = 3;
};

/// Settings of metrics.jsonl and log.txt in the run folder.
struct LogSettings {
  std::int64_t every_updates = 1;  // updates from one line of metrics.jsonl to the next
  LogLevel level = LogLevel::kInfo;
  bool tensorboard = false;  // also write the metrics as TensorBoard reads them
};

/// Absent optionals mean what their comments say; configure() fills those that
/// depend on the machine. Several threads may read one object; the non-const of() changes it.
struct TrainOptions {
  /// Read first: the algorithm decides which preset lies below the other settings.
  std::string algo = "ppo";  // the name of an algorithm (algorithm.h)
  std::string env = {};
  /// Absolute once read, since a run may be resumed from another folder.
  std::vector<std::filesystem::path> plugins = {};
  std::int64_t total_steps = 500'000;  // environment steps over all environments
  /// Must be a multiple of the shards.
  int num_envs = 8;         // of the run, over all shards
  int rollout_steps = 128;  // of each environment, between updates
  /// Every random stream of the run derives from it, on all ranks.
  std::int64_t seed = 0;
  /// One replica for each device that it names, on each rank. The number of replicas does not decide the results;
  /// `shards` does.
  std::string devices = "cpu";
  std::optional<std::int64_t> shards = {};          // nothing: as many as replicas
  std::optional<InstructionSet> instructions = {};  // of MLP policies' loops; nothing: the most that all ranks have
  std::int64_t env_restarts = 0;                    // failed environments that are made anew; then one ends the run
  Survivors survivors = Survivors::kEnd;
  /// Has an effect only with survivors.
  double deadline_seconds = 30;  // without a sign of life, after which survivors take a rank for lost
  sync::StrategyKind strategy = sync::StrategyKind::kReplicated;
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  ParameterServerSettings parameter_server = {};
  AsynchronousSettings asynchronous = {};
  SyncReplicasSettings sync_replicas = {};
  Rng rng = Rng::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  PolicySettings policy = {};
  MultiAgentSettings multi_agent = {};
  NormalizeSettings normalize = {};
  CheckpointSettings checkpoint = {};
  LogSettings log = {};

  /// The last four are of one call of the program; a run does not record them.
  std::optional<std::filesystem::path> run_dir = {};  // nothing: a new folder in runs/
  Resume resume = Resume::kNever;
  /// Errors are still printed.
  bool quiet = false;
  /// Writes where the time of each thread went; see app/run/profile.h.
  bool profile = false;

  /// The options of one algorithm, by their type; with their defaults before they were asked for. The reference stays
  /// good while this object lives.
  template <typename Options>
  [[nodiscard]] Options& of() {
    std::any& its = of_algorithms[typeid(Options)];
    if (!its.has_value()) its = Options();
    return *std::any_cast<Options>(&its);
  }
  template <typename Options>
  [[nodiscard]] const Options& of() const {
    static const Options defaults{};
    // Reading adds nothing, so that const options stay safe to share.
    const auto found = of_algorithms.find(typeid(Options));
    return found == of_algorithms.end() ? defaults : *std::any_cast<Options>(&found->second);
  }
  // filled by of(); copied with the options, so each copy has algorithm options of its own
  std::map<std::type_index, std::any> of_algorithms = {};
};

/// The table of all options, bound to `options`, which must outlive it.
/// Makes a new table with the options of all registered algorithms; the values that `options` has now are the defaults.
/// Nobody else may hold a table of the same object while one assigns.
[[nodiscard]] OptionTable option_table(TrainOptions& options);

// The words of all enumerations follow, as help lists them. config.yaml records words and not numbers, so the order of
// values may change.
template <>
struct Choices<Recurrence> {
  using enum Recurrence;
  static constexpr std::array kAll{Choice{kNone, "none"}, Choice{kLstm, "lstm"}, Choice{kGru, "gru"}};
};
template <>
struct Choices<Resume> {
  using enum Resume;
  static constexpr std::array kAll{Choice{kNever, "never"}, Choice{kAuto, "auto"}, Choice{kMust, "must"}};
};
template <>
struct Choices<Rng> {
  using enum Rng;
  static constexpr std::array kAll{Choice{kShards, "shards"}, Choice{kUnordered, "unordered"}};
};
template <>
struct Choices<InstructionSet> {
  using enum InstructionSet;
  static constexpr std::array kAll{Choice{kPortable, "portable"}, Choice{kAvx2, "avx2"}, Choice{kAvx512, "avx512"}};
};
template <>
struct Choices<device::CudaKernels> {
  using enum device::CudaKernels;
  static constexpr std::array kAll{Choice{kDeterministic, "deterministic"}, Choice{kFastest, "fastest"}};
};
template <>
struct Choices<sync::StrategyKind> {
  using enum sync::StrategyKind;
  static constexpr std::array kAll{Choice{kReplicated, "replicated"}, Choice{kDivided, "divided"},
                                   Choice{kParameterServer, "parameter_server"}, Choice{kAsynchronous, "asynchronous"},
                                   Choice{kSyncReplicas, "sync_replicas"}};
};
template <>
struct Choices<sync::Servers> {
  static constexpr std::array kAll{Choice<sync::Servers>{sync::Servers::kAll, "all"},
                                   Choice<sync::Servers>{sync::Servers::kFirst, "first"}};
};
template <>
struct Choices<sync::Variables> {
  using enum sync::Variables;
  static constexpr std::array kAll{Choice{kOnDevices, "devices"}, Choice{kOnCpu, "cpu"}};
};
template <>
struct Choices<sync::Scaling> {
  using enum sync::Scaling;
  static constexpr std::array kAll{Choice{kByReplicas, "by_replicas"}, Choice{kNone, "none"}};
};
template <>
struct Choices<sync::Acceptance> {
  using enum sync::Acceptance;
  static constexpr std::array kAll{Choice{kWhole, "whole"}, Choice{kPerVariable, "per_variable"}};
};
template <>
struct Choices<sync::SparseMean> {
  using enum sync::SparseMean;
  static constexpr std::array kAll{Choice{kByCount, "by_count"}, Choice{kByIndex, "by_index"}};
};
template <>
struct Choices<sync::Tokens> {
  using enum sync::Tokens;
  static constexpr std::array kAll{Choice{kOwn, "own"}, Choice{kShared, "shared"}};
};
template <>
struct Choices<sync::RateScaling> {
  using enum sync::RateScaling;
  static constexpr std::array kAll{Choice{kNone, "none"}, Choice{kByGradients, "by_gradients"}};
};
template <>
struct Choices<LogLevel> {
  using enum LogLevel;
  static constexpr std::array kAll{Choice{kDebug, "debug"}, Choice{kInfo, "info"}, Choice{kWarning, "warning"}};
};
// Words that the options of several algorithms use; words of one algorithm are in its own file.
template <>
struct Choices<rl::Schedule> {
  using enum rl::Schedule;
  static constexpr std::array kAll{Choice{kConstant, "constant"}, Choice{kLinear, "linear"}};
};
template <>
struct Choices<rl::TimeLimit> {
  using enum rl::TimeLimit;
  static constexpr std::array kAll{Choice{kBootstrap, "bootstrap"}, Choice{kTerminal, "terminal"}};
};
template <>
struct Choices<pipeline::Stragglers> {
  using enum pipeline::Stragglers;
  static constexpr std::array kAll{Choice{kWaitAll, "wait_all"}, Choice{kPreempt, "preempt"},
                                   Choice{kTimeOptimal, "time_optimal"}};
};
template <>
struct Choices<Survivors> {
  using enum Survivors;
  static constexpr std::array kAll{Choice{kEnd, "end"}, Choice{kTakeOver, "take_over"}, Choice{kShrink, "shrink"}};
};
template <>
struct Choices<sync::GradientCheck> {
  using enum sync::GradientCheck;
  static constexpr std::array kAll{Choice{kSum, "sum"}, Choice{kEachReplica, "each_replica"}};
};
template <>
struct Choices<rl::LossKernel> {
  using enum rl::LossKernel;
  static constexpr std::array kAll{Choice{kAuto, "auto"}, Choice{kRecorded, "recorded"}, Choice{kOff, "off"}};
};
template <>
struct Choices<rl::Torso> {
  using enum rl::Torso;
  static constexpr std::array kAll{Choice{kAuto, "auto"}, Choice{kNone, "none"}, Choice{kNatureCnn, "nature_cnn"},
                                   Choice{kResidual, "residual"}};
};

}  // namespace tandem::app
