#include "tandem/model/flat_home.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

// The bytes between a tensor's first and last element.
struct Bytes {
  std::uintptr_t begin, end;
  const std::string* name;
};

std::optional<Bytes> bytes_of(const NamedTensor& named) {
  const at::Tensor& tensor = named.tensor;
  if (tensor.layout() != at::kStrided || tensor.numel() == 0 || !tensor.has_storage()) return std::nullopt;
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  if (begin == 0) return std::nullopt;
  std::uintptr_t last = 0;  // offset of the last element
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    last += static_cast<std::uintptr_t>((tensor.size(d) - 1) * tensor.stride(d));
  return Bytes{begin, begin + (last + 1) * tensor.element_size(), &named.name};
}

bool is_home(const Home& each) { return each.tensor.const_data_ptr() == each.home.const_data_ptr(); }

std::string kind_of(const at::Tensor& tensor) {
  return concat(tensor.sizes(), ", ", tensor.scalar_type(), " on ", tensor.device());
}

void require_same_kind(const Home& each, const torch::nn::Module& module) {
  const at::Tensor &now = each.tensor, &home = each.home;
  if (now.layout() == at::kStrided && now.sizes() == home.sizes() && now.scalar_type() == home.scalar_type() &&
      now.device() == home.device())
    return;
  const std::vector<NamedTensor> all = all_tensors_of(module);
  const auto its = std::ranges::find_if(all, [&](const NamedTensor& one) { return one.tensor.is_same(now); });
  throw ConfigError(concat(its == all.end() ? "a tensor of the module" : its->name,
                           " no longer lies in flat memory and is ", kind_of(now), " where it was ", kind_of(home),
                           ": module->to() or set_data() changed it after the module was bound; do that before "
                           "DataParallel, or whatever binds the module, is made"));
}

}  // namespace

std::vector<NamedTensor> all_tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  const auto note = [&](const auto& items, const char* kind) {
    for (const auto& item : items) {
      if (item.value().defined()) all.push_back({concat(kind, " \"", item.key(), "\""), item.value()});
    }
  };
  note(module.named_parameters(), "parameter");
  note(module.named_buffers(), "buffer");
  return all;
}

// Ranges are sorted by their begin, so only neighbours need to be compared.
std::optional<std::pair<std::string, std::string>> sharing_memory(const torch::nn::Module& module) {
  const std::vector<NamedTensor> all = all_tensors_of(module);
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<Bytes> ranges;
  for (const NamedTensor& each : all) {
    if (!seen.insert(each.tensor.unsafeGetTensorImpl()).second) continue;
    if (const std::optional<Bytes> bytes = bytes_of(each)) ranges.push_back(*bytes);
  }
  std::ranges::sort(ranges, {}, &Bytes::begin);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) return std::pair{*ranges[i - 1].name, *ranges[i].name};
    ranges[i].end = std::max(ranges[i].end, ranges[i - 1].end);
  }
  return std::nullopt;
}

void return_home(const torch::nn::Module& module, const std::vector<Home>& homes) {
  if (std::ranges::all_of(homes, is_home)) return;
  for (const Home& each : homes) {
    if (!is_home(each)) require_same_kind(each, module);
  }
  if (const auto two = sharing_memory(module)) {
    throw ConfigError(concat(two->first, " and ", two->second,
                             " share memory since the module was bound (set_data()), ",
                             "so a step would tear them apart; tie them before, by registering one tensor under both "
                             "names"));
  }
  const at::NoGradGuard no_grad;
  for (const Home& each : homes) {
    if (is_home(each)) continue;
    at::Tensor(each.home).copy_(each.tensor.detach());
    each.tensor.set_data(each.home);
  }
}

}  // namespace tandem::model
