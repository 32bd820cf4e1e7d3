#include "tandem/model/files/safetensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

constexpr std::array<std::pair<SafetensorsType, at::ScalarType>, 10> kDtypes{{{SafetensorsType::kF64, at::kDouble},
                                                                              {SafetensorsType::kF32, at::kFloat},
                                                                              {SafetensorsType::kF16, at::kHalf},
                                                                              {SafetensorsType::kBF16, at::kBFloat16},
                                                                              {SafetensorsType::kI64, at::kLong},
                                                                              {SafetensorsType::kI32, at::kInt},
                                                                              {SafetensorsType::kI16, at::kShort},
                                                                              {SafetensorsType::kI8, at::kChar},
                                                                              {SafetensorsType::kU8, at::kByte},
                                                                              {SafetensorsType::kBool, at::kBool}}};

SafetensorsType type_of(const std::string& name, const at::Tensor& tensor) {
  for (const auto& [type, dtype] : kDtypes) {
    if (dtype == tensor.scalar_type()) return type;
  }
  throw CheckpointError(concat("tensor \"", name, "\" has dtype ", tensor.scalar_type(),
                               ", which a safetensors file of tandem cannot hold; convert it first"));
}

at::ScalarType dtype_of(SafetensorsType type) {
  for (const auto& [from, dtype] : kDtypes) {
    if (from == type) return dtype;
  }
  TANDEM_CHECK(false, "type ", static_cast<int>(type));
}

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) all.emplace_back(item.key(), item.value());
  }
  return all;
}

std::string describe(const at::Tensor& tensor) { return concat(tensor.sizes(), " ", tensor.scalar_type()); }

}  // namespace

void write_safetensors(const NamedTensors& tensors, const SafetensorsMetadata& metadata, const ByteSink& sink) {
  std::vector<std::pair<SafetensorsEntry, at::Tensor>> items;
  for (const auto& [name, tensor] : tensors) {
    TANDEM_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "\"", name, "\" is not a dense tensor");
    items.push_back({{name, type_of(name, tensor), tensor.sizes().vec(), 0, 0}, tensor});
  }
  std::ranges::stable_sort(items, std::ranges::greater(), [](const auto& item) { return size_of(item.first.type); });
  std::vector<SafetensorsEntry> entries;
  std::map<std::string_view, int> names;
  for (const auto& item : items) {
    TANDEM_CHECK(++names[item.first.name] == 1, "\"", item.first.name, "\" is written twice");
    entries.push_back(item.first);
  }
  const std::string header = make_safetensors_header(entries, metadata);
  sink(std::as_bytes(std::span(header)));
  for (const auto& item : items) {
    const at::Tensor plain = item.second.detach().contiguous().cpu();
    if (plain.nbytes() > 0) sink(std::span(static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()));
  }
}

const at::Tensor& TensorFile::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  if (found != tensors.end()) return found->second;
  std::string there;
  for (const auto& tensor : tensors) there += (there.empty() ? "" : ", ") + tensor.first;
  throw CheckpointError(concat("there is no tensor \"", name, "\"; there is ", there.empty() ? "none" : there));
}

TensorFile read_safetensors(std::span<const std::byte> file) {
  auto layout = parse_safetensors(file);
  TensorFile read{{}, std::move(layout.metadata)};
  for (auto& entry : layout.entries) {
    at::Tensor tensor = at::empty(entry.shape, dtype_of(entry.type));
    const auto bytes = file.subspan(layout.data_begin + entry.begin, entry.end - entry.begin);
    if (entry.type == SafetensorsType::kBool &&
        std::ranges::any_of(bytes, [](std::byte value) { return std::to_integer<int>(value) > 1; })) {
      throw CheckpointError(concat("tensor \"", entry.name, "\" is boolean but has elements other than 0 and 1"));
    }
    if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    read.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return read;
}

void save_weights_safetensors(const torch::nn::Module& module, const std::filesystem::path& path,
                              const SafetensorsMetadata& metadata) {
  AtomicFile file(path);
  write_safetensors(state_of(module), metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void load_weights_safetensors(torch::nn::Module& module, const std::filesystem::path& path) {
  const std::string content = read_file(path);
  TensorFile file;
  try {
    file = read_safetensors(std::as_bytes(std::span(content)));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(path.string(), ": ", error.what()));
  }
  const auto state = state_of(module);
  std::string faults;
  for (const auto& [name, tensor] : state) {
    const auto found = std::ranges::find(file.tensors, name, &NamedTensors::value_type::first);
    const auto there = found == file.tensors.end() ? std::string("missing") : describe(found->second);
    if (there != describe(tensor))
      faults += concat("\n  \"", name, "\": ", there, "; the module has ", describe(tensor));
  }
  for (const auto& [name, tensor] : file.tensors) {
    const bool known = std::ranges::find(state, name, &NamedTensors::value_type::first) != state.end();
    if (!known) faults += concat("\n  \"", name, "\": the module has none of that name");
  }
  if (!faults.empty()) throw CheckpointError(concat(path.string(), " does not fit the module:", faults));
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) tensor.detach().copy_(file.at(name));
}

}  // namespace tandem::model
