// app/config/train_options.h: everything that decides a training run, as plain values.
//
// option_list.cc describes each field, and is the one place that knows the keys and flags; those of an algorithm are in
// its own file (algorithm.h).
//
// Plain values: copyable, with defaults that make a run once `env` is named. Enumerations and structs of the library
// are used where it has them; a Settings struct names the library struct that its fields become. Nothing here is
// checked: limits are in option_list.cc, rules in configuration.cc.
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

#include "tandem/app/config/option_table.h"
#include "tandem/app/run/line_schedule.h"
#include "tandem/app/run/run_log.h"
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
  /// The action family; nothing: the usual one of the action space.
  std::optional<std::string> head = {};
  /// The natural logarithm of the standard deviation that continuous actions begin with.
  double log_std_init = 0;
  double hidden_gain = 1.4142135623730951, policy_gain = 0.01, value_gain = 1;
  /// Steps that noise is held; of the head state_dependent_noise.
  std::int64_t sde_sample_freq = 4;
  rl::TorsoOptions torso = {};
  Recurrence recurrent = Recurrence::kNone;
  std::int64_t recurrent_size = 64;
  /// As rl::SequenceOptions.
  int max_seq_len = 32, burn_in = 0;
};

/// The end or the going on of the other ranks when one has died.
enum class Survivors {
  kEnd,       // they end too
  kTakeOver,  // they go on after the last complete update, with all env groups
  kShrink,    // likewise, with fewer: none makes more environment steps than before
};

/// As rl::NormalizerOptions. Nothing: wherever it can be done, which configure() finds out.
struct NormalizeSettings {
  std::optional<bool> observations = false, rewards = false;
  double clip_observation = 10, clip_reward = 10;

  [[nodiscard]] rl::NormalizerOptions options() const {
    return {.observations = observations.value_or(false),
            .rewards = rewards.value_or(false),
            .clip_observation = clip_observation,
            .clip_reward = clip_reward};
  }
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

/// Evaluation while a run trains, on environments and seeds of its own. It changes no bit of the training. Rank 0 plays
/// while the other ranks wait.
struct EvalSettings {
  /// After the first update that ends beyond each multiple of these; nothing: never.
  std::optional<std::int64_t> every_steps = {};
  std::int64_t episodes = 10;
  /// The most probable actions; else drawn ones.
  bool deterministic = true;
  /// Steps of an episode, after which it is cut short.
  std::int64_t max_steps = 100'000;
  /// The mean return that ends the run.
  std::optional<double> stop_at = {};
};

/// Settings of metrics.jsonl and log.txt in the run folder.
struct LogSettings {
  /// Updates from one line of metrics.jsonl to the next.
  std::int64_t every_updates = 1;
  /// Lines of metrics.jsonl before they get rarer, as LineSchedule says.
  std::int64_t dense_lines = 100'000;
  /// The least that log.txt takes.
  Severity level = Severity::kInfo;
  /// Also write the metrics as TensorBoard reads them.
  bool tensorboard = false;

  [[nodiscard]] LineSchedule lines() const { return {.every = every_updates, .dense = dense_lines}; }
};

/// Absent optionals mean what their comments say; configure() fills those that
/// depend on the machine. Several threads may read one object; the non-const of() changes it.
/// What runs environments and was named on the command line; empty: nothing was.
struct NamedCode {
  std::vector<std::filesystem::path> plugins = {};
  std::optional<std::filesystem::path> python = {};
};

struct TrainOptions {
  /// Read first: the algorithm decides which preset lies below the other settings.
  /// The name of an algorithm (algorithm.h).
  std::string algo = "ppo";
  std::string env = {};
  /// "NAME=VALUE" of each option that is set (rl/env/env_options.h).
  std::vector<std::string> env_options = {};
  /// Wrappers around the environment, the nearest first, as rl/env/wrappers/wrapper_list.h reads them.
  std::vector<std::string> env_wrappers = {};
  /// Absolute once read, since a run may be resumed from another folder.
  std::vector<std::filesystem::path> plugins = {};
  /// Of each plugin, in hexadecimal digits, as configure() found them.
  std::vector<std::string> plugin_sha256 = {};
  /// The interpreter that steps a Python environment; nothing: that which python_of() finds (train/python_choice.h).
  std::optional<std::filesystem::path> python = {};
  /// A run, a checkpoint or a file of weights whose policies this run begins with (train/warm_start.h); with or without
  /// its normalisers.
  std::optional<std::filesystem::path> init_from = {};
  bool init_normalizers = true;
  /// Environment steps over all environments.
  std::int64_t total_steps = 500'000;
  /// Must be a multiple of the shards.
  /// Of the run, over all shards.
  int num_envs = 8;
  /// Of each environment, between updates.
  int rollout_steps = 128;
  /// Every random stream of the run derives from it, on all ranks.
  std::int64_t seed = 0;
  /// One replica for each device that it names, on each rank. The number of replicas does not decide the results;
  /// `shards` does.
  std::string devices = "cpu";
  /// Nothing: as many as replicas.
  std::optional<std::int64_t> shards = {};
  /// Of MLP policies' loops; nothing: the most that all ranks have.
  std::optional<InstructionSet> instructions = {};
  std::int64_t env_restarts = 0;  // failed environments that are made anew; then one ends the run
  /// Whether env groups live in processes of their own; the numbers are the same.
  bool isolate_envs = false;
  /// These two have an effect only with isolate_envs: what one request to such a process may take, and its memory
  /// (2^20 bytes; 0: no limit).
  double env_deadline_seconds = 60;
  /// Processes of each env group, of an environment in Python; nothing: as isolation.h says.
  std::optional<std::int64_t> env_workers = {};
  std::int64_t env_memory_mb = 0;
  Survivors survivors = Survivors::kEnd;
  /// Has an effect only with survivors.
  double deadline_seconds = 30;  // without a sign of life, after which survivors take a rank for lost
  sync::StrategyKind strategy = sync::StrategyKind::kReplicated;
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  // The options of the strategies of these names; the algorithm decides their means.
  sync::ParameterServerOptions parameter_server = {};
  sync::AsynchronousOptions asynchronous = {};
  sync::SyncReplicasOptions sync_replicas = {};
  sync::LocalStepsOptions local_steps = {};
  Rng rng = Rng::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  PolicySettings policy = {};
  /// By name of a policy, by key: what this one has in place of `policy`, as YAML (policy_keys.h).
  std::map<std::string, std::map<std::string, std::string>> policies = {};
  MultiAgentSettings multi_agent = {};
  NormalizeSettings normalize = {};
  EvalSettings eval = {};
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

// The words of all enumerations follow, as help lists them, in the order of the values: who moves a value moves its
// word as well. config.yaml records words and not numbers.
template <>
inline constexpr auto kChoices<Recurrence> = words_up_to<Recurrence::kGru>("none", "lstm", "gru");
template <>
inline constexpr auto kChoices<Resume> = words_up_to<Resume::kMust>("never", "auto", "must");
template <>
inline constexpr auto kChoices<Rng> = words_up_to<Rng::kUnordered>("shards", "unordered");
template <>
inline constexpr auto kChoices<InstructionSet> = words_up_to<InstructionSet::kAvx512>("portable", "avx2", "avx512");
template <>
inline constexpr auto kChoices<device::CudaKernels> = words_up_to<device::CudaKernels::kFastest>("deterministic",
                                                                                                 "fastest");
template <>
inline constexpr auto kChoices<sync::StrategyKind> = words_up_to<sync::StrategyKind::kLocalSteps>(
    "replicated", "divided", "parameter_server", "asynchronous", "sync_replicas", "local_steps");
template <>
inline constexpr auto kChoices<sync::Outer> = words_up_to<sync::Outer::kNesterov>("average", "nesterov");
template <>
inline constexpr auto kChoices<sync::Wire> = words_up_to<sync::Wire::kInt4>("full", "int8", "int4");
template <>
inline constexpr auto kChoices<sync::Servers> = words_up_to<sync::Servers::kFirst>("all", "first");
template <>
inline constexpr auto kChoices<sync::Variables> = words_up_to<sync::Variables::kOnCpu>("devices", "cpu");
template <>
inline constexpr auto kChoices<sync::Scaling> = words_up_to<sync::Scaling::kNone>("by_replicas", "none");
template <>
inline constexpr auto kChoices<sync::Acceptance> = words_up_to<sync::Acceptance::kPerVariable>("whole", "per_variable");
template <>
inline constexpr auto kChoices<sync::SparseMean> = words_up_to<sync::SparseMean::kByIndex>("by_count", "by_index");
template <>
inline constexpr auto kChoices<sync::Tokens> = words_up_to<sync::Tokens::kShared>("own", "shared");
template <>
inline constexpr auto kChoices<sync::RateScaling> = words_up_to<sync::RateScaling::kByGradients>("none",
                                                                                                 "by_gradients");
template <>
inline constexpr auto kChoices<Severity> = words_up_to<Severity::kWarning>("debug", "info", "warning");
// Words that the options of several algorithms use; words of one algorithm are in its own file.
/// A schedule is a word or a list of points (rl/algo/schedule.h). A function has no text that could be read, and no
/// option of the program is one.
template <>
struct ValueFormat<rl::Schedule> {
  static std::optional<rl::Schedule> read(const std::string& text) { return rl::Schedule::read(text); }
  static std::string write(const rl::Schedule& value) { return write_text(value.text()); }
  static std::string kind() {
    return "constant, linear or piecewise(SHARE: VALUE, ...), whose shares of the run go up from 0 to 1 and whose "
           "values are at least 0";
  }
};
template <>
inline constexpr auto kChoices<rl::TimeLimit> = words_up_to<rl::TimeLimit::kTerminal>("bootstrap", "terminal");
template <>
inline constexpr auto kChoices<pipeline::Stragglers> = words_up_to<pipeline::Stragglers::kTimeOptimal>("wait_all",
                                                                                                       "preempt",
                                                                                                       "time_optimal");
template <>
inline constexpr auto kChoices<Survivors> = words_up_to<Survivors::kShrink>("end", "take_over", "shrink");
template <>
inline constexpr auto kChoices<sync::GradientCheck> = words_up_to<sync::GradientCheck::kEachReplica>("sum",
                                                                                                     "each_replica");
template <>
inline constexpr auto kChoices<rl::LossKernel> = words_up_to<rl::LossKernel::kOff>("auto", "recorded", "off");
template <>
inline constexpr auto kChoices<rl::Compute> = words_up_to<rl::Compute::kBfloat16Tiles>("float32", "bfloat16",
                                                                                       "bfloat16_tiles");
template <>
inline constexpr auto kChoices<rl::Torso> = words_up_to<rl::Torso::kResidual>("auto", "none", "nature_cnn", "residual");

}  // namespace tandem::app
