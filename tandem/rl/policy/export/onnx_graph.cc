#include "tandem/rl/policy/export/onnx_graph.h"

#include <ATen/ATen.h>

#include <bit>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/base/version.h"

// The numbers of fields, by message, from onnx.proto3.
namespace tandem::rl {
namespace {

namespace model_field {
constexpr int kFileVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpsets = 8, kMetadata = 14;
}
namespace opset_field {
constexpr int kVersion = 2;
}
namespace entry_field {
constexpr int kKey = 1, kValue = 2;
}
namespace graph_field {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr int kInput = 1, kOutput = 2, kName = 3, kOperation = 4, kAttribute = 5;
}
namespace attribute_field {
constexpr int kName = 1, kFloat = 2, kInteger = 3, kIntegers = 8, kType = 20;
constexpr int kTypeFloat = 1, kTypeInteger = 2, kTypeIntegers = 7;
}  // namespace attribute_field
namespace tensor_field {
constexpr int kDimension = 1, kType = 2, kName = 8, kRaw = 9;
}
namespace value_field {
constexpr int kName = 1, kType = 2, kTensor = 1, kElement = 1, kShape = 2, kDimension = 1, kSize = 1, kSymbol = 2;
}

// TensorProto.DataType names these numbers.
int element_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kDouble:
      return 11;
    default:
      TANDEM_CHECK(false, "a tensor of ", dtype, " in ONNX");
  }
}

// Raw bytes of a tensor are little-endian.
static_assert(std::endian::native == std::endian::little);

ProtobufMessage tensor_message(const std::string& name, const at::Tensor& value) {
  const at::Tensor here = value.detach().to(at::kCPU).contiguous();
  ProtobufMessage tensor;
  for (const std::int64_t size : here.sizes()) tensor.integer(tensor_field::kDimension, size);
  tensor.integer(tensor_field::kType, element_type(here.scalar_type())).text(tensor_field::kName, name);
  tensor.bytes(tensor_field::kRaw, {static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()});
  return tensor;
}

// A name, an element type and a shape. Dimensions of kRows are a symbol, so they are equal in all inputs.
ProtobufMessage value_message(const std::string& name, at::ScalarType dtype, const std::vector<std::int64_t>& shape) {
  ProtobufMessage dimensions;
  for (const std::int64_t size : shape) {
    ProtobufMessage dimension;
    if (size == OnnxGraph::kRows) {
      dimension.text(value_field::kSymbol, "rows");
    } else {
      dimension.integer(value_field::kSize, size);
    }
    dimensions.message(value_field::kDimension, dimension);
  }
  ProtobufMessage tensor, type, value;
  tensor.integer(value_field::kElement, element_type(dtype)).message(value_field::kShape, dimensions);
  type.message(value_field::kTensor, tensor);
  return std::move(value.text(value_field::kName, name).message(value_field::kType, type));
}

// An attribute says its type besides its value.
ProtobufMessage attribute_message(const OnnxGraph::Attribute& attribute) {
  ProtobufMessage message;
  message.text(attribute_field::kName, attribute.first);
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.second)) {
    message.integer(attribute_field::kInteger, *integer).integer(attribute_field::kType, attribute_field::kTypeInteger);
  } else if (const auto* number = std::get_if<float>(&attribute.second)) {
    message.real(attribute_field::kFloat, *number).integer(attribute_field::kType, attribute_field::kTypeFloat);
  } else {
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(attribute.second))
      message.integer(attribute_field::kIntegers, each);
    message.integer(attribute_field::kType, attribute_field::kTypeIntegers);
  }
  return message;
}

}  // namespace

std::string OnnxGraph::next_name(const char* kind) { return concat("/", kind, "_", names_++); }

void OnnxGraph::input(const std::string& name, at::ScalarType dtype, const std::vector<std::int64_t>& shape) {
  inputs_.message(graph_field::kInput, value_message(name, dtype, shape));
}

// Values have names of their own until then, so an operator of no effect renames this one.
void OnnxGraph::output(const std::string& name, const std::string& value, at::ScalarType dtype,
                       const std::vector<std::int64_t>& shape) {
  ProtobufMessage rename;
  rename.text(node_field::kInput, value).text(node_field::kOutput, name).text(node_field::kName, next_name("Identity"));
  nodes_.message(graph_field::kNode, rename.text(node_field::kOperation, "Identity"));
  outputs_.message(graph_field::kOutput, value_message(name, dtype, shape));
}

// A node and its result have one name.
std::string OnnxGraph::node(const char* operation, const std::vector<std::string>& arguments,
                            const std::vector<Attribute>& attributes) {
  std::string result = next_name(operation);
  ProtobufMessage node;
  for (const std::string& argument : arguments) node.text(node_field::kInput, argument);
  node.text(node_field::kOutput, result).text(node_field::kName, result).text(node_field::kOperation, operation);
  for (const Attribute& attribute : attributes) node.message(node_field::kAttribute, attribute_message(attribute));
  nodes_.message(graph_field::kNode, node);
  return result;
}

std::string OnnxGraph::constant(const at::Tensor& value) {
  std::string name = next_name("constant");
  constants_.message(graph_field::kInitializer, tensor_message(name, value));
  return name;
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  return constant(at::tensor(values, at::kLong));
}

// The fields of a message may stand in any order, and messages one behind the other are one message of all fields.
std::string OnnxGraph::model(const std::vector<std::pair<std::string, std::string>>& metadata) const {
  ProtobufMessage name;
  name.text(graph_field::kName, "policy");
  const std::string graph =
      nodes_.encoded() + name.encoded() + constants_.encoded() + inputs_.encoded() + outputs_.encoded();
  ProtobufMessage model, opset;
  opset.integer(opset_field::kVersion, kOnnxOpset);
  model.integer(model_field::kFileVersion, kOnnxFileVersion)
      .text(model_field::kProducer, "tandem")
      .text(model_field::kProducerVersion, kVersion)
      .text(model_field::kGraph, graph)
      .message(model_field::kOpsets, opset);
  for (const auto& [key, value] : metadata)
    model.message(model_field::kMetadata,
                  ProtobufMessage().text(entry_field::kKey, key).text(entry_field::kValue, value));
  return model.encoded();
}

}  // namespace tandem::rl
