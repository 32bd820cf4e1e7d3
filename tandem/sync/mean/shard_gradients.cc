#include "tandem/sync/mean/shard_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::sync {

// Plan: tree_ says which of a few sets of gradients the next shard writes to, and which finished sets to add. open()
// binds the module's gradients to that set; close() notes what was counted beside them and adds. After the last shard
// the sum lies in set 0, whose memory the caller has chosen.
ShardGradients::ShardGradients(Replica& replica, const model::FlatParameters::Allocate& allocate)
    : replica_(replica),
      tree_(replica.placement().mine.size()),
      tallies_(static_cast<std::size_t>(tree_.buffers())),
      tally_to_sum_(at::from_blob(tallies_.data(), {sizeof(Tally) / sizeof(double)}, at::kDouble)),
      sparse_(static_cast<std::size_t>(replica.placement().mine.size())) {
  const c10::Device device = replica.placement().device;
  const model::FlatParameters::Allocate own = [device](std::int64_t count, at::ScalarType dtype) {
    return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device));
  };
  for (int set = 0; set < tree_.buffers(); ++set) {
    const model::FlatParameters::Allocate& from = set == 0 && allocate ? allocate : own;
    sets_.push_back(replica.parameters().make_gradients(from));
    std::vector<at::Tensor>& sums = buffer_sums_.emplace_back();
    for (const model::FlatModuleBuffer& buffer : replica.buffers().values()) {
      const bool mean = buffer.merge == model::FlatModuleBuffer::Merge::kMean;
      sums.push_back(from(buffer.values.numel(), mean ? buffer.values.scalar_type() : at::kLong));
    }
  }
}

void ShardGradients::open(int shard) {
  const Range mine = replica_.placement().mine;
  if (done_ == mine.size()) done_ = 0;
  TANDEM_CHECK(!in_pass_ && shard == mine.begin + done_, "shard ", shard, " opened, expected ", mine.begin + done_);
  if (done_ == 0) {
    replica_.buffers().save_start();
    // The sparse gradients of the last step are given up, so that their memory is free while those of this one are
    // made.
    for (auto& last : sparse_) {
      for (auto& slots : last) std::fill(slots.begin(), slots.end(), at::Tensor());
    }
    without_loss_.reset();
  } else {
    replica_.buffers().restore_start();
  }
  replica_.parameters().bind(sets_[static_cast<std::size_t>(tree_.next())]);
  in_pass_ = true;
}

// Notes what the shard has beside its gradients, then lets the tree add whatever sets are complete by now.
void ShardGradients::close(double weight, double loss) {
  TANDEM_CHECK(in_pass_, "close() without open()");
  in_pass_ = false;
  replica_.parameters().collect();
  const at::NoGradGuard no_grad;
  const auto set = static_cast<std::size_t>(tree_.next());
  tallies_[set] = {.weight = weight, .shards = 1, .loss = weight * loss};
  const int shard = replica_.placement().mine.begin + done_;
  if (!std::isfinite(loss) && !without_loss_) without_loss_ = shard;
  take_buffers(shard, buffer_sums_[set]);
  sparse_[static_cast<std::size_t>(done_)] = sets_[set].sparse;
  ++done_;
  tree_.add([this](int into, int from) { merge(static_cast<std::size_t>(into), static_cast<std::size_t>(from)); });
}

// Floating buffers are summed for their mean. For all others the value of shard 0 remains: other shards add zeros.
void ShardGradients::take_buffers(int shard, std::vector<at::Tensor>& sums) {
  const std::vector<model::FlatModuleBuffer>& buffers = replica_.buffers().values();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (shard == 0 || buffers[i].merge == model::FlatModuleBuffer::Merge::kMean) {
      sums[i].copy_(buffers[i].values);
    } else {
      sums[i].zero_();
    }
  }
}

void ShardGradients::require_complete() const {
  TANDEM_CHECK(!in_pass_ && done_ == replica_.placement().mine.size(), done_, " of ", replica_.placement().mine.size(),
               " shards had their pass before step()");
}

// Adds everything of set `from` to set `into`: gradients with their presence flags, buffers, and the tally.
void ShardGradients::merge(std::size_t into, std::size_t from) {
  for (std::size_t b = 0; b < sets_[into].flat.size(); ++b) {
    if (sets_[into].flat[b].defined()) sets_[into].flat[b].add_(sets_[from].flat[b]);
  }
  for (std::size_t i = 0; i < buffer_sums_[into].size(); ++i) buffer_sums_[into][i].add_(buffer_sums_[from][i]);
  tallies_[into] += tallies_[from];
}

// The replica that holds shard 0 goes on giving the buffers that are not averaged, because no other replica does.
void ShardGradients::offer_nothing() {
  TANDEM_CHECK(!in_pass_ && (done_ == 0 || done_ == replica_.placement().mine.size()), "left in the middle of a step");
  without_loss_.reset();
  const at::NoGradGuard no_grad;
  for (at::Tensor& flat : sets_.front().flat) {
    if (flat.defined()) flat.zero_();
  }
  const Range mine = replica_.placement().mine;
  tallies_.front() = {.left = static_cast<double>(mine.size())};
  const std::vector<model::FlatModuleBuffer>& buffers = replica_.buffers().values();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const bool keeps = mine.begin == 0 && buffers[i].merge == model::FlatModuleBuffer::Merge::kShardZero;
    if (keeps)
      buffer_sums_.front()[i].copy_(buffers[i].values);
    else
      buffer_sums_.front()[i].zero_();
  }
  std::vector<std::vector<at::Tensor>> none;
  for (const auto& slots : sets_.front().sparse) none.emplace_back(slots.size());
  sparse_.assign(static_cast<std::size_t>(mine.size()), none);
  done_ = mine.size();
}

}  // namespace tandem::sync
