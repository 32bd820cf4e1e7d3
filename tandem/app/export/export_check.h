// app/export/export_check.h: runs an exported policy on recorded observations and compares its actions with those of
// the policy that was trained.
//
//   policy.h      is compiled as C++11 and run: its actions have the bits of the portable kernels.
//   policy.onnx   runs in onnxruntime, in a Python that has it: actions are equal to 1e-5.
//   policy.pt     runs in this process: the same.
//
// Real numbers may differ by the tolerance, or by that share of them where they are above 1. A choice may be another
// one where the two are as good as equal, their logits within the tolerance.
//
// Threads: the main one. Blocks until a compiler, or a Python, is done.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "tandem/app/export/recorded_rows.h"
#include "tandem/app/train/evaluate.h"

namespace tandem::app {

/// Where the parts below find a compiler and a Python.
struct CheckTools {
  /// A Python of the user's; else python_of() chooses it.
  std::optional<std::filesystem::path> python = {};
};

/// Returns what was compared, in a sentence. Throws RunError when an action differs, with the row and both actions;
/// ConfigError when what the file needs to run is not there, saying how to get it.
[[nodiscard]] std::string check_export(const std::filesystem::path& file, const TrainedPolicy& trained,
                                       const RecordedRows& rows, const CheckTools& tools);

// One for each kind of file: the actions of all rows, [rows, elements], of int64 or float32.

[[nodiscard]] at::Tensor header_actions(const std::filesystem::path& file, const TrainedPolicy& trained,
                                        const RecordedRows& rows);
[[nodiscard]] at::Tensor onnx_actions(const std::filesystem::path& file, const TrainedPolicy& trained,
                                      const RecordedRows& rows, const CheckTools& tools);
[[nodiscard]] at::Tensor script_actions(const std::filesystem::path& file, const TrainedPolicy& trained,
                                        const RecordedRows& rows);

/// The part of `state` that decides actions: the actor's memory, which files of policies have alone. Undefined where
/// that is.
[[nodiscard]] at::Tensor acting_state(const TrainedPolicy& trained, const at::Tensor& state);

}  // namespace tandem::app
