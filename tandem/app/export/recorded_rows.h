// app/export/recorded_rows.h: observations of a run's environment, with which an exported policy is compared with the
// one that was trained.
//
// Threads: the main one. Blocks while episodes are played.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "tandem/app/config/train_options.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::app {

/// A row is an observation of one policy when it acted. Rows come from several episodes, and from late and early
/// in them.
struct RecordedRows {
  /// By leaf [rows, ...]: as the environment showed it, and as the policy sees it.
  rl::Observation raw, seen;
  /// [rows, mask elements]; undefined where actions are not discrete, or nothing is masked.
  at::Tensor mask;
  /// [rows, state size] before acting; undefined for a policy that does not remember.
  at::Tensor state;

  [[nodiscard]] std::int64_t rows() const { return raw.front().size(0); }
};

/// Plays the environment with the run's policies until one of them, `policy`, has seen so many observations.
/// `environments`: as environments_of() gives them. Throws as evaluate().
[[nodiscard]] RecordedRows record_rows(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                       const rl::EnvRegistry& environments, const std::string& policy,
                                       std::int64_t rows);

}  // namespace tandem::app
