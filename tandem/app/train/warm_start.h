// app/train/warm_start.h: begins a run with what another one has learned: its policies, and what it knows of the scale
// of observations and rewards.
//
// Everything else is new: optimizer, counters, episodes, random streams, settings. So it may be another algorithm,
// learning rate or environment, as long as the policies have the same tensors.
//
// Threads: the main one.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The policies of a run folder (its newest checkpoint), a checkpoint or a file of exported weights, to begin with.
struct WarmSource {
  std::string place;                                    // for messages
  std::map<std::string, model::NamedTensors> policies;  // by name; "" of one agent's, and of a file's
  /// By policy: moments by name, as Normalizers::state() gives them; none in a file.
  std::map<std::string, model::NamedTensors> normalizers = {};
  bool saw_normalized = false;  // its policy was shown normalised observations
};
/// Throws ConfigError where `path` is none of these, CheckpointError where its bytes are damaged.
[[nodiscard]] WarmSource read_warm_source(const std::filesystem::path& path);

/// For a run that begins, before it has a folder. Throws ConfigError with all that keeps the options' policies from
/// beginning with `init_from`: policies or tensors that are missing or of another shape, observations that only one
/// side normalises. Does nothing without `init_from`.
void check_warm_start(const TrainOptions& options, const rl::EnvRegistry& environments);

/// The run saves its state, rank 0 replaces the tensors that the source has, and all ranks load it; so it serves every
/// algorithm that can be resumed.
/// Brings what the source has into a run that has made no update; on ranks other than the first `source` is null.
/// Collective. Returns what was taken and what was not, a sentence each.
std::vector<std::string> warm_start(rl::TrainingRun& run, const TrainOptions& options, const WarmSource* source);

}  // namespace tandem::app
