#include "tandem/model/files/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/named_copy.h"

namespace tandem::model {

// The header needs all sizes first; then the tensors go out one by one, so that at most one copy is in memory.
void write_safetensors(const NamedTensors& tensors, const SafetensorsMetadata& metadata, const ByteSink& sink) {
  std::vector<std::pair<SafetensorsEntry, at::Tensor>> items;
  for (const auto& [name, tensor] : tensors) {
    TANDEM_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "\"", name, "\" is not a dense tensor");
    items.push_back({{name, tensor.scalar_type(), tensor.sizes().vec(), 0, 0}, tensor});
  }
  std::ranges::stable_sort(items, std::ranges::greater(), [](const auto& item) { return item.second.element_size(); });
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
    at::Tensor tensor = at::empty(entry.shape, entry.dtype);
    const auto bytes = file.subspan(layout.data_begin + entry.begin, entry.end - entry.begin);
    if (entry.dtype == at::kBool &&
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
  write_safetensors(tensors_of(module), metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

void load_weights_safetensors(torch::nn::Module& module, const std::filesystem::path& path) {
  const std::string content = read_file(path);
  try {
    copy_named(read_safetensors(std::as_bytes(std::span(content))).tensors, tensors_of(module));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat(path.string(), ": ", error.what()));
  }
}

}  // namespace tandem::model
