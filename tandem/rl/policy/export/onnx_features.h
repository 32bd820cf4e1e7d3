// rl/policy/export/onnx_features.h: what Encoder::encode() makes of an observation, as operators of ONNX: the
// normaliser, convolutions, and the encoding of flat leaves.
//
// Threads: free functions on values of the caller's. Errors: those of OnnxGraph.
#pragma once
#include <string>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/export/exported_policy.h"
#include "tandem/rl/policy/export/onnx_graph.h"

namespace tandem::rl {

/// Adds an input for each leaf, and returns the value [rows, encoder.size()].
[[nodiscard]] std::string onnx_features(const ExportedPolicy& exported, const Encoder& encoder, OnnxGraph& graph);

}  // namespace tandem::rl
