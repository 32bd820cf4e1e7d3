#include "tandem/rl/policy/export/onnx_features.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace tandem::rl {
namespace {

constexpr std::int64_t kOnnxFloat = 1;  // what the operator Cast calls float32

std::string to_float(const std::string& x, OnnxGraph& graph) { return graph.node("Cast", {x}, {{"to", kOnnxFloat}}); }

// ImageTorso::forward() once more: value i of the torso is values[i].
std::string convolve(const ImageTorso& torso, const std::string& image, OnnxGraph& graph) {
  std::vector<std::string> values{
      graph.node("Div", {to_float(image, graph), graph.constant(at::scalar_tensor(torso.largest(), at::kFloat))})};
  for (const TorsoStep& step : torso.steps()) {
    const std::string& in = values[step.in];
    switch (step.kind) {
      case TorsoStep::Kind::kConvolve: {
        const at::Tensor &weight = step.convolution->weight, &bias = step.convolution->bias;
        values.push_back(graph.node("Conv", {in, graph.constant(weight), graph.constant(bias)},
                                    {{"kernel_shape", std::vector{weight.size(2), weight.size(3)}},
                                     {"strides", std::vector(2, step.stride)},
                                     {"pads", std::vector(4, step.padding)}}));
        break;
      }
      case TorsoStep::Kind::kRectify:
        values.push_back(graph.node("Relu", {in}));
        break;
      case TorsoStep::Kind::kPool:
        values.push_back(graph.node("MaxPool", {in},
                                    {{"kernel_shape", std::vector<std::int64_t>{3, 3}},
                                     {"strides", std::vector<std::int64_t>{2, 2}},
                                     {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}));
        break;
      case TorsoStep::Kind::kAdd:
        values.push_back(graph.node("Add", {in, values[step.also]}));
        break;
    }
  }
  return graph.node("Flatten", {values.back()}, {{"axis", std::int64_t{1}}});
}

// A leaf of floats, flattened, in the type in which the environment shows it. Its statistics are of that type.
std::string normalize(const Normalizers& normalizers, std::size_t leaf, const std::string& x, OnnxGraph& graph) {
  const auto [mean, inverse] = normalizers.mean_and_inverse_std(leaf);
  const double clip = normalizers.options().clip_observation;
  const std::string scaled = graph.node("Mul", {graph.node("Sub", {x, graph.constant(mean)}), graph.constant(inverse)});
  return graph.node("Clip", {scaled, graph.constant(at::scalar_tensor(-clip, mean.options())),
                             graph.constant(at::scalar_tensor(clip, mean.options()))});
}

// A feature of a one-hot leaf is whether its element has its value: both are constants of the feature.
std::string one_hot(const FlatFeatures::Part& part, const std::string& x, OnnxGraph& graph) {
  std::vector<std::int64_t> elements, values;
  for (std::size_t i = 0; i < part.options.size(); ++i) {
    for (std::int64_t option = 0; option < part.options[i]; ++option) {
      elements.push_back(static_cast<std::int64_t>(i));
      values.push_back(part.first[i] + option);
    }
  }
  const std::string each = graph.node("Gather", {x, graph.integers(elements)}, {{"axis", std::int64_t{1}}});
  return to_float(graph.node("Equal", {each, graph.integers(values)}), graph);
}

// The leaf comes as [rows, shape...] and becomes [rows, features].
std::string flatten(const ExportedPolicy& exported, const FlatFeatures::Part& part, std::size_t leaf,
                    const std::string& input, OnnxGraph& graph) {
  const std::string flat = graph.node("Reshape", {input, graph.integers({OnnxGraph::kRows, part.count})});
  switch (part.leaf.type) {
    case ElementType::kUInt8:
      return graph.node("Mul", {graph.node("Sub", {to_float(flat, graph), graph.constant(at::tensor(part.low))}),
                                graph.constant(at::tensor(part.scale))});
    case ElementType::kInt64:
      return one_hot(part, flat, graph);
    default:
      break;
  }
  const std::string seen = exported.is_normalized() ? normalize(*exported.normalizers, leaf, flat, graph) : flat;
  return exported.is_wide(leaf) ? to_float(seen, graph) : seen;
}

}  // namespace

// Torsos in the order of their leaves, then the other leaves, as Encoder::encode() joins them.
std::string onnx_features(const ExportedPolicy& exported, const Encoder& encoder, OnnxGraph& graph) {
  const Spec& spec = exported.policy.spec();
  const std::vector<std::string> names = leaf_names(spec);
  for (std::size_t l = 0; l < names.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    graph.input(names[l], exported.is_wide(l) ? at::kDouble : scalar_type(leaf.type),
                with_rows({OnnxGraph::kRows}, leaf));
  }
  std::vector<std::string> parts;
  for (const Encoder::OfLeaf& each : encoder.torsos()) parts.push_back(convolve(*each.torso, names[each.leaf], graph));
  for (std::size_t p = 0; p < encoder.flat_leaves().size(); ++p) {
    const std::size_t leaf = encoder.flat_leaves()[p];
    parts.push_back(flatten(exported, encoder.flat().parts()[p], leaf, names[leaf], graph));
  }
  return parts.size() == 1 ? parts.front() : graph.node("Concat", parts, {{"axis", std::int64_t{1}}});
}

}  // namespace tandem::rl
