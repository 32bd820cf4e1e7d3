// app/export/check_files.h: recorded observations as raw files, which a program that runs an exported policy reads, and
// the actions that it writes.
//
// Threads: the main one. Errors: CheckpointError of files, RunError for actions of another size.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

#include "tandem/app/export/recorded_rows.h"
#include "tandem/app/train/evaluate.h"

namespace tandem::app {

/// Writes leaf_0, leaf_1, ..., and mask and state where there are any: row after row, in the environment's types. What
/// is masked in no row is written as allowed.
void write_rows(const std::filesystem::path& folder, const TrainedPolicy& trained, const RecordedRows& rows);

/// Reads the file `actions`: [rows, elements], of int64 or float32.
[[nodiscard]] at::Tensor read_actions(const std::filesystem::path& folder, const TrainedPolicy& trained,
                                      const RecordedRows& rows);

}  // namespace tandem::app
