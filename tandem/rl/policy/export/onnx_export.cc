#include "tandem/rl/policy/export/onnx_export.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/rl/policy/acting_net.h"
#include "tandem/rl/policy/export/onnx_features.h"
#include "tandem/rl/policy/export/onnx_graph.h"
#include "tandem/rl/policy/recurrent_policy.h"

// The plan: the features, then an operator or some for each step of the acting net, then the way from the head to the
// action. The cells are written as products and gates: ONNX's own LSTM and GRU are for whole sequences.
namespace tandem::rl {
namespace {

class OnnxWriter {
 public:
  explicit OnnxWriter(const ExportedPolicy& exported)
      : exported_(exported), spec_(exported.policy.spec()), net_(exported.policy.acting_net()) {}

  std::string write();

 private:
  std::string step(const ActingStep& step, std::int64_t size);
  std::string activate(Activation activation, const std::string& x);
  std::string remember(const RecurrentCell& cell, const std::string& x);
  std::string lstm(std::int64_t size, const std::string& gates, const std::string& memory);
  std::string gru(std::int64_t size, const std::string& of_input, const std::string& of_output,
                  const std::string& output);
  void choose(const std::string& head);
  void place(const Box& box, const std::string& head);

  std::string linear(const std::string& x, const at::Tensor& weight, const at::Tensor& bias) {
    return graph_.node("Gemm", {x, floats(weight), floats(bias)}, {{"transB", std::int64_t{1}}});
  }
  std::string floats(const at::Tensor& value) { return graph_.constant(value.detach().to(at::kFloat)); }
  std::string number(double value) { return graph_.constant(at::scalar_tensor(value, at::kFloat)); }
  // The numbers begin .. end - 1 of each row.
  std::string slice(const std::string& x, std::int64_t begin, std::int64_t end) {
    return graph_.node("Slice", {x, graph_.integers({begin}), graph_.integers({end}), graph_.integers({1})});
  }
  std::string reshape(const std::string& x, std::int64_t count, std::int64_t numbers) {
    return graph_.node("Reshape", {x, graph_.integers({OnnxGraph::kRows, count, numbers})});
  }

  const ExportedPolicy& exported_;
  const Spec& spec_;
  const ActingNet net_;
  OnnxGraph graph_;
  std::vector<std::string> values_;  // of the acting net
};

// ONNX has operators for all but SiLU and GELU, which are written out; its own Gelu is of a later opset.
std::string OnnxWriter::activate(Activation activation, const std::string& x) {
  switch (activation) {
    case Activation::kTanh:
      return graph_.node("Tanh", {x});
    case Activation::kRelu:
      return graph_.node("Relu", {x});
    case Activation::kSilu:
      return graph_.node("Mul", {x, graph_.node("Sigmoid", {x})});
    case Activation::kElu:
      return graph_.node("Elu", {x}, {{"alpha", 1.0F}});
    case Activation::kGelu:
      break;
  }
  const std::string erf = graph_.node("Erf", {graph_.node("Mul", {x, number(1 / std::numbers::sqrt2)})});
  return graph_.node("Mul", {graph_.node("Mul", {x, number(0.5)}), graph_.node("Add", {erf, number(1)})});
}

// As RecurrentCell::step_lstm().
std::string OnnxWriter::lstm(std::int64_t size, const std::string& gates, const std::string& memory) {
  const auto sigmoid = [&](std::int64_t gate) {
    return graph_.node("Sigmoid", {slice(gates, gate * size, (gate + 1) * size)});
  };
  const std::string proposed = graph_.node("Tanh", {slice(gates, 2 * size, 3 * size)});
  const std::string next =
      graph_.node("Add", {graph_.node("Mul", {sigmoid(1), memory}), graph_.node("Mul", {sigmoid(0), proposed})});
  const std::string output = graph_.node("Mul", {sigmoid(3), graph_.node("Tanh", {next})});
  graph_.output("next_state", graph_.node("Concat", {output, next}, {{"axis", std::int64_t{1}}}), at::kFloat,
                {OnnxGraph::kRows, 2 * size});
  return output;
}

// As RecurrentCell::step_gru().
std::string OnnxWriter::gru(std::int64_t size, const std::string& of_input, const std::string& of_output,
                            const std::string& output) {
  const auto sigmoid = [&](std::int64_t gate) {
    const std::int64_t begin = gate * size, end = begin + size;
    return graph_.node("Sigmoid", {graph_.node("Add", {slice(of_input, begin, end), slice(of_output, begin, end)})});
  };
  const std::string reset = sigmoid(0), update = sigmoid(1);
  const std::string kept = graph_.node("Mul", {reset, slice(of_output, 2 * size, 3 * size)});
  const std::string proposed = graph_.node("Tanh", {graph_.node("Add", {slice(of_input, 2 * size, 3 * size), kept})});
  const std::string off = graph_.node("Mul", {update, graph_.node("Sub", {output, proposed})});
  std::string next = graph_.node("Add", {proposed, off});
  graph_.output("next_state", next, at::kFloat, {OnnxGraph::kRows, size});
  return next;
}

// The state is one tensor: the output and, of an LSTM, the memory behind it.
std::string OnnxWriter::remember(const RecurrentCell& cell, const std::string& x) {
  const std::int64_t size = cell.size();
  graph_.input("state", at::kFloat, {OnnxGraph::kRows, cell.state_size()});
  const std::string output = slice("state", 0, size);
  const std::string of_input = linear(x, cell.weight_ih(), cell.bias_ih());
  const std::string of_output = linear(output, cell.weight_hh(), cell.bias_hh());
  if (cell.kind() == CellKind::kGru) return gru(size, of_input, of_output, output);
  return lstm(size, graph_.node("Add", {of_input, of_output}), slice("state", size, 2 * size));
}

// `size`: the numbers of a row of the result.
// DQN's returns are [rows, actions, numbers] for as long as they are distributions.
std::string OnnxWriter::step(const ActingStep& step, std::int64_t size) {
  using Kind = ActingStep::Kind;
  const std::string& in = values_.at(step.in);
  const std::int64_t numbers = step.count > 0 ? net_.size(step.in) / step.count : 0;
  switch (step.kind) {
    case Kind::kLinear:
      return linear(in, step.weight, step.bias);
    case Kind::kActivate:
      return activate(step.activation, in);
    case Kind::kRemember:
      return remember(*step.cell, in);
    case Kind::kTakeFirst:
      return slice(in, 0, step.count);
    case Kind::kSquash:
      return graph_.node("Tanh", {in});
    case Kind::kDuel: {
      const std::int64_t each = net_.size(step.in);
      const std::string advantages = reshape(values_.at(step.also), step.count, each);
      const std::string mean = graph_.node("ReduceMean", {advantages},
                                           {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{1}}});
      const std::string sum = graph_.node("Add", {reshape(in, 1, each), advantages});
      return graph_.node("Reshape", {graph_.node("Sub", {sum, mean}), graph_.integers({OnnxGraph::kRows, size})});
    }
    case Kind::kExpect: {
      const std::string shares =
          graph_.node("Softmax", {reshape(in, step.count, numbers)}, {{"axis", std::int64_t{2}}});
      return graph_.node("ReduceSum", {graph_.node("Mul", {shares, floats(step.support)}), graph_.integers({2})},
                         {{"keepdims", std::int64_t{0}}});
    }
    case Kind::kAverage:
      return graph_.node("ReduceMean", {reshape(in, step.count, numbers)},
                         {{"axes", std::vector<std::int64_t>{2}}, {"keepdims", std::int64_t{0}}});
  }
  TANDEM_CHECK(false, "a step of kind ", static_cast<int>(step.kind));
}

// The best of what the mask allows, choice by choice. An environment without masks allows everything, and its model has
// no input for them.
void OnnxWriter::choose(const std::string& head) {
  const std::int64_t all = mask_elements(spec_.action);
  std::string logits = head;
  if (spec_.has_action_mask) {
    constexpr std::int64_t kOnnxBool = 9;
    graph_.input("mask", at::kByte, {OnnxGraph::kRows, all});
    const std::string excluded = number(-std::numeric_limits<double>::infinity());
    logits = graph_.node("Where", {graph_.node("Cast", {"mask"}, {{"to", kOnnxBool}}), head, excluded});
  }
  const auto best = [&](const std::string& of, std::int64_t keep) {
    return graph_.node("ArgMax", {of}, {{"axis", std::int64_t{1}}, {"keepdims", keep}});
  };
  graph_.output("logits", head, at::kFloat, {OnnxGraph::kRows, all});
  if (std::holds_alternative<Discrete>(spec_.action))
    return graph_.output("action", best(logits, 0), at::kLong, {OnnxGraph::kRows});
  std::vector<std::string> chosen;
  std::int64_t first = 0;
  for (const std::int64_t options : choices_of(spec_.action)) {
    chosen.push_back(best(slice(logits, first, first + options), 1));
    first += options;
  }
  graph_.output("action", graph_.node("Concat", chosen, {{"axis", std::int64_t{1}}}), at::kLong,
                {OnnxGraph::kRows, static_cast<std::int64_t>(chosen.size())});
}

// As to_bounds(), in float32.
void OnnxWriter::place(const Box& box, const std::string& head) {
  const at::Tensor low = at::tensor(box.low, at::kDouble), high = at::tensor(box.high, at::kDouble);
  const at::Tensor has_range = low.isfinite().logical_and(high.isfinite());
  std::string mode = head;
  if (exported_.policy.family() == ActionFamily::kSquashedNormal) {
    const double limit = model::SquashedNormal::limit(at::kFloat);
    mode = graph_.node("Clip", {graph_.node("Tanh", {head}), number(-limit), number(limit)});
  }
  const std::string action =
      graph_.node("Add", {floats(at::where(has_range, 0.5 * (low + high), 0.0)),
                          graph_.node("Mul", {mode, floats(at::where(has_range, 0.5 * (high - low), 1.0))})});
  const std::string within = graph_.node("Min", {graph_.node("Max", {action, floats(low)}), floats(high)});
  graph_.output("mean", head, at::kFloat, {OnnxGraph::kRows, low.size(0)});
  graph_.output("action", within, at::kFloat, {OnnxGraph::kRows, low.size(0)});
}

// Constants are copies, so nothing is differentiated here.
std::string OnnxWriter::write() {
  const at::NoGradGuard no_grad;
  values_.push_back(onnx_features(exported_, net_.encoder(), graph_));
  for (std::size_t i = 0; i < net_.steps().size(); ++i) values_.push_back(step(net_.steps()[i], net_.size(i + 1)));
  if (const auto* box = std::get_if<Box>(&spec_.action)) {
    place(*box, values_.back());
  } else {
    choose(values_.back());
  }
  return graph_.model(describe_policy(exported_));
}

}  // namespace

std::string onnx_of(const ExportedPolicy& exported) { return OnnxWriter(exported).write(); }

void export_onnx(const ExportedPolicy& exported, const std::filesystem::path& path) {
  write_file(path, onnx_of(exported));
}

}  // namespace tandem::rl
