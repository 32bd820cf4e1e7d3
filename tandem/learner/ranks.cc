#include "tandem/learner/ranks.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"

namespace tandem::learner {
namespace {

// Copies the elements into a tensor of the host, because a group moves tensors. No elements make a tensor of no rows.
template <typename T>
at::Tensor tensor_of(std::span<const T> elements, at::ScalarType type) {
  const at::Tensor tensor = at::empty({std::ssize(elements)}, type);
  if (!elements.empty()) std::memcpy(tensor.data_ptr(), elements.data(), elements.size_bytes());
  return tensor;
}

// Copies into memory that the caller uses again, so that a gather in every update keeps its vectors.
template <typename T>
void take_elements(const at::Tensor& tensor, std::vector<T>& elements) {
  elements.resize(static_cast<std::size_t>(tensor.numel()));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.const_data_ptr(), tensor.nbytes());
}

template <typename T>
void gather_elements(comm::Group& group, const at::Tensor& mine, const Limits& limits,
                     std::vector<std::vector<T>>& all) {
  const std::vector<at::Tensor> given = group.all_gather(mine, limits);
  all.resize(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) take_elements(given[i], all[i]);
}

}  // namespace

Ranks::Ranks() : Ranks(std::shared_ptr<comm::Group>(std::move(comm::make_local_group(1).front()))) {}

Ranks::Ranks(std::shared_ptr<comm::Group> group, std::string description, Clock::duration patience)
    : group_(std::move(group)), description_(std::move(description)), patience_(patience) {}

// A single process needs no memory that others see.
ProgressBoard Ranks::open_board(int units, Range mine, std::chrono::milliseconds news) const {
  if (size() == 1) return ProgressBoard(units);
  if (open_board_) return open_board_(units, mine, news, limits());
  throw ConfigError(
      concat("the ", size(), " ranks see no progress of each other; give them boards with Ranks::with_boards()"));
}

std::vector<sync::Placement> Ranks::place(const std::vector<c10::Device>& devices, int shards) const {
  return sync::place_replicas(devices, shards, *group_, limits());
}

std::vector<std::vector<double>> Ranks::gather(const std::vector<double>& mine) const {
  std::vector<std::vector<double>> all;
  gather(mine, all);
  return all;
}

void Ranks::gather(const std::vector<double>& mine, std::vector<std::vector<double>>& all) const {
  if (size() > 1) {
    gather_elements(*group_, tensor_of(std::span(mine), at::kDouble), limits(), all);
    return;
  }
  all.resize(1);
  all.front() = mine;
}

std::vector<std::vector<std::byte>> Ranks::gather(std::span<const std::byte> mine) const {
  std::vector<std::vector<std::byte>> all;
  gather_elements(*group_, tensor_of(mine, at::kByte), limits(), all);
  return all;
}

std::vector<std::byte> Ranks::from(int root, std::span<const std::byte> roots) const {
  const bool is_mine = rank() == root;
  // The length travels first, since the other ranks have to make room for the bytes.
  const at::Tensor count = at::zeros({1}, at::kLong);
  if (is_mine) count.fill_(std::ssize(roots));
  group_->broadcast(count, root, limits());
  const at::Tensor bytes = is_mine ? tensor_of(roots, at::kByte) : at::empty({count.item<std::int64_t>()}, at::kByte);
  if (bytes.numel() > 0) group_->broadcast(bytes, root, limits());
  std::vector<std::byte> all;
  take_elements(bytes, all);
  return all;
}

}  // namespace tandem::learner
