#include "tandem/learner/ranks.h"

#include <ATen/ATen.h>

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"

namespace tandem::learner {
namespace {

template <typename T>
at::Tensor tensor_of(std::span<const T> elements, at::ScalarType type) {
  const at::Tensor tensor = at::empty({std::ssize(elements)}, type);
  if (!elements.empty()) std::memcpy(tensor.data_ptr(), elements.data(), elements.size_bytes());
  return tensor;
}

template <typename T>
std::vector<T> elements_of(const at::Tensor& tensor) {
  std::vector<T> elements(static_cast<std::size_t>(tensor.numel()));
  if (!elements.empty()) std::memcpy(elements.data(), tensor.const_data_ptr(), tensor.nbytes());
  return elements;
}

template <typename T>
std::vector<std::vector<T>> gather_elements(comm::Group& group, const at::Tensor& mine, const Limits& limits) {
  std::vector<std::vector<T>> all;
  for (const at::Tensor& its : group.all_gather(mine, limits)) all.push_back(elements_of<T>(its));
  return all;
}

}  // namespace

Ranks::Ranks() : Ranks(std::shared_ptr<comm::Group>(std::move(comm::make_local_group(1).front()))) {}

Ranks::Ranks(std::shared_ptr<comm::Group> group, std::string description, Clock::duration patience)
    : group_(std::move(group)), description_(std::move(description)), patience_(patience) {}

Ranks Ranks::with_boards(OpenBoard open_board) const {
  Ranks ranks = *this;
  ranks.open_board_ = std::move(open_board);
  return ranks;
}

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
    all = gather_elements<double>(*group_, tensor_of(std::span(mine), at::kDouble), limits());
    return;
  }
  all.resize(1);
  all.front() = mine;
}

std::vector<std::vector<std::byte>> Ranks::gather(std::span<const std::byte> mine) const {
  return gather_elements<std::byte>(*group_, tensor_of(mine, at::kByte), limits());
}

std::vector<std::byte> Ranks::from(int root, std::span<const std::byte> roots) const {
  const bool is_mine = rank() == root;
  const at::Tensor count = at::zeros({1}, at::kLong);
  if (is_mine) count.fill_(std::ssize(roots));
  group_->broadcast(count, root, limits());
  const at::Tensor bytes = is_mine ? tensor_of(roots, at::kByte) : at::empty({count.item<std::int64_t>()}, at::kByte);
  if (bytes.numel() > 0) group_->broadcast(bytes, root, limits());
  return elements_of<std::byte>(bytes);
}

}  // namespace tandem::learner
