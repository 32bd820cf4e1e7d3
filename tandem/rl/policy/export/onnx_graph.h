// rl/policy/export/onnx_graph.h: a model of ONNX that is built operator by operator, and its file.
//
//   OnnxGraph graph;
//   graph.input("x", at::kFloat, {OnnxGraph::kRows, 4});
//   const std::string y = graph.node("Gemm", {"x", graph.constant(weight), graph.constant(bias)}, {{"transB", 1}});
//   graph.output("y", y, at::kFloat, {OnnxGraph::kRows, 2});
//   write_file(path, graph.model(metadata));
//
// The fields are those of onnx.proto3 (github.com/onnx/onnx). Operators are those of opset kOnnxOpset.
//
// Threads: single-thread. Errors: ConfigError for a model of 2 GiB or more, InvariantError for a dtype without a place
// in ONNX.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/rl/policy/export/protobuf_message.h"

namespace tandem::rl {

/// The version of ONNX's operators; ONNX 1.12 (June 2022) has it, and onnxruntime 1.12.
inline constexpr int kOnnxOpset = 17;
/// The version of the file's format that belongs to it.
inline constexpr int kOnnxFileVersion = 8;

class OnnxGraph {
 public:
  /// The first dimension of inputs and outputs, which the user of the model chooses.
  static constexpr std::int64_t kRows = -1;

  /// An attribute of an operator: an integer, a number or integers.
  using Attribute = std::pair<const char*, std::variant<std::int64_t, float, std::vector<std::int64_t>>>;

  void input(const std::string& name, at::ScalarType dtype, const std::vector<std::int64_t>& shape);
  /// Makes `value`, of a node, an output of that name.
  void output(const std::string& name, const std::string& value, at::ScalarType dtype,
              const std::vector<std::int64_t>& shape);

  /// Appends a node and returns the name of its one result.
  std::string node(const char* operation, const std::vector<std::string>& arguments,
                   const std::vector<Attribute>& attributes = {});
  /// Keeps a copy of `value` in the model and returns its name.
  std::string constant(const at::Tensor& value);
  /// Constants of few integers, for shapes and axes.
  std::string integers(const std::vector<std::int64_t>& values);

  /// The whole file. `metadata`: what it tells of itself, names and texts.
  [[nodiscard]] std::string model(const std::vector<std::pair<std::string, std::string>>& metadata) const;

 private:
  // No input or output has a slash in its name.
  std::string next_name(const char* kind);

  // Fields of the graph in the order of its definition, all of one kind in a message.
  ProtobufMessage nodes_, constants_, inputs_, outputs_;
  std::int64_t names_ = 0;
};

}  // namespace tandem::rl
