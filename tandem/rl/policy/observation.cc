#include "tandem/rl/policy/observation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// A one-hot row of more would make the first layer enormous; an embedding is the right module then.
constexpr std::int64_t kMostOptions = 65536;

[[noreturn]] void fail_range(const Leaf& leaf) {
  throw EnvError(concat("observation leaf '", leaf.name, "' has an integer outside of the bounds that its spec gives"));
}

}  // namespace

Spec as_policies_see(Spec spec) {
  for (Leaf& leaf : spec.observation) {
    if (leaf.type == ElementType::kFloat64) leaf.type = ElementType::kFloat32;
  }
  return spec;
}

at::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kUInt8:
      return at::kByte;
    case ElementType::kInt64:
      return at::kLong;
    case ElementType::kFloat64:
      return at::kDouble;
  }
  return at::kFloat;
}

std::vector<std::int64_t> with_rows(std::vector<std::int64_t> rows, const Leaf& leaf) {
  rows.insert(rows.end(), leaf.shape.begin(), leaf.shape.end());
  return rows;
}

// The first leaf decides the number of rows that the others must have.
void check_observation(const Spec& spec, const Observation& observation) {
  if (observation.size() != spec.observation.size()) {
    throw ConfigError(concat(spec.id, ": an observation of ", observation.size(), " leaves was given, the spec has ",
                             spec.observation.size()));
  }
  for (std::size_t l = 0; l < observation.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    const at::Tensor& tensor = observation[l];
    const bool fits = tensor.defined() && tensor.dim() >= 1 && tensor.scalar_type() == scalar_type(leaf.type) &&
                      tensor.sizes() == with_rows({observation[0].size(0)}, leaf);
    if (!fits) {
      throw ConfigError(concat(spec.id, ": observation leaf '", leaf.name, "' is ",
                               tensor.defined() ? concat(tensor.scalar_type(), " ", tensor.sizes()) : "undefined",
                               ", must be [rows, ...] of ", describe(leaf), " with the same rows in every leaf"));
    }
  }
}

Observation to_device(const Observation& observation, c10::Device device) {
  Observation there;
  for (const at::Tensor& leaf : observation) there.push_back(leaf.to(device));
  return there;
}

// Lays out the features of all leaves, one behind the other, and keeps for each leaf the numbers that encoding needs.
FlatFeatures::FlatFeatures(const Spec& spec) : spec_(as_policies_see(spec)) {
  for (const Leaf& leaf : spec_.observation) {
    Part part{.leaf = leaf, .count = leaf.count(), .begin = size_, .features = leaf.count()};
    const auto count = static_cast<std::size_t>(part.count);
    if (leaf.type == ElementType::kUInt8) {
      for (std::size_t i = 0; i < count; ++i) {
        const double low = leaf.low.empty() ? 0 : leaf.low[i], high = leaf.high.empty() ? 255 : leaf.high[i];
        part.low.push_back(static_cast<float>(low));
        part.scale.push_back(high > low ? static_cast<float>(1 / (high - low)) : 1.0F);
      }
    } else if (leaf.type == ElementType::kInt64) {
      if (leaf.low.empty()) {
        throw ConfigError(
            concat(spec.id, ": observation leaf '", leaf.name, "' is int64 without bounds; an MLP policy ",
                   "needs them to encode it (one-hot). Give low and high in the spec, or bring your own module"));
      }
      part.features = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double options = leaf.high[i] - leaf.low[i] + 1;
        if (!(static_cast<double>(part.features) + options <= static_cast<double>(kMostOptions))) {
          throw ConfigError(concat(spec.id, ": one-hot features of observation leaf '", leaf.name,
                                   "' would be more than ", kMostOptions,
                                   "; bring your own module, with an embedding"));
        }
        part.first.push_back(static_cast<std::int64_t>(leaf.low[i]));
        part.options.push_back(static_cast<std::int64_t>(options));
        part.offset.push_back(part.features);
        part.features += part.options.back();
      }
    }
    size_ += part.features;
    parts_.push_back(std::move(part));
  }
  identity_ = parts_.size() == 1 && parts_[0].leaf.type == ElementType::kFloat32;
}

// One leaf's features, by the arithmetic of encode_row() so that both give the same bits.
at::Tensor FlatFeatures::encode_part(const Part& part, const at::Tensor& leaf) const {
  const at::Tensor flat = leaf.reshape({leaf.size(0), part.count});
  if (part.leaf.type == ElementType::kFloat32) return flat;
  const auto on_device = [&](const auto& values, at::ScalarType dtype) {
    return at::tensor(at::ArrayRef(values), at::TensorOptions(dtype)).to(leaf.device());
  };
  if (part.leaf.type == ElementType::kUInt8) {
    return (flat.to(at::kFloat) - on_device(part.low, at::kFloat)) * on_device(part.scale, at::kFloat);
  }
  const at::Tensor choice = flat - on_device(part.first, at::kLong);
  if (choice.is_cpu() && (choice < 0).logical_or(choice >= on_device(part.options, at::kLong)).any().item<bool>()) {
    fail_range(part.leaf);
  }
  return at::zeros({leaf.size(0), part.features}, leaf.options().dtype(at::kFloat))
      .scatter_(1, choice + on_device(part.offset, at::kLong), 1.0);
}

at::Tensor FlatFeatures::encode(const Observation& observation) const {
  check_observation(spec_, observation);
  if (parts_.size() == 1) return encode_part(parts_[0], observation[0]);
  std::vector<at::Tensor> encoded;
  for (std::size_t l = 0; l < parts_.size(); ++l) encoded.push_back(encode_part(parts_[l], observation[l]));
  return at::cat(encoded, 1);
}

// `row`: the bytes of one observation of the leaf. memcpy() reads integers, since rows of a leaf need not be aligned.
void FlatFeatures::encode_row(const Part& part, const std::byte* row, float* out) const {
  const auto count = static_cast<std::size_t>(part.count);
  if (part.leaf.type == ElementType::kFloat32) {
    std::memcpy(out, row, count * sizeof(float));
  } else if (part.leaf.type == ElementType::kUInt8) {
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = (static_cast<float>(std::to_integer<int>(row[i])) - part.low[i]) * part.scale[i];
    }
  } else {
    std::fill(out, out + part.features, 0.0F);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t value = 0;
      std::memcpy(&value, row + i * sizeof value, sizeof value);
      const std::int64_t choice = value - part.first[i];
      if (choice < 0 || choice >= part.options[i]) fail_range(part.leaf);
      out[part.offset[i] + choice] = 1.0F;
    }
  }
}

void FlatFeatures::encode_rows(std::span<const std::byte* const> leaves, std::int64_t rows, float* out) const {
  for (std::size_t l = 0; l < parts_.size(); ++l) {
    const Part& part = parts_[l];
    const std::byte* row = leaves[l];
    for (std::int64_t r = 0; r < rows; ++r, row += part.leaf.bytes())
      encode_row(part, row, out + r * size_ + part.begin);
  }
}

// encode() in TorchScript. Bounds become buffers of the exported module; the exported policy does not check integers.
FlatFeatures::Script FlatFeatures::script() const {
  Script script{.statements = "    parts: List[Tensor] = []\n"};
  for (std::size_t l = 0; l < parts_.size(); ++l) {
    const Part& part = parts_[l];
    const auto constant = [&](const char* name, const at::Tensor& value) {
      script.constants.emplace_back(concat("feature_", name, "_", l), value);
      return "self." + script.constants.back().first;
    };
    const std::string flat = concat("observation[", l, "].reshape([-1, ", part.count, "])");
    if (part.leaf.type == ElementType::kFloat32) {
      script.statements += concat("    parts.append(", flat, ")\n");
    } else if (part.leaf.type == ElementType::kUInt8) {
      const std::string low = constant("low", at::tensor(part.low)), scale = constant("scale", at::tensor(part.scale));
      script.statements += concat("    parts.append((", flat, " - ", low, ") * ", scale, ")\n");
    } else {
      const std::string first = constant("first", at::tensor(part.first, at::kLong));
      const std::string offset = constant("offset", at::tensor(part.offset, at::kLong));
      const std::string none = constant("none", at::zeros({1, part.features}));
      script.statements += concat("    parts.append(", none, ".repeat([", flat, ".size(0), 1]).scatter_(1, ", flat,
                                  " - ", first, " + ", offset, ", 1.0))\n");
    }
  }
  script.statements += "    features = torch.cat(parts, 1)\n";
  return script;
}

}  // namespace tandem::rl
