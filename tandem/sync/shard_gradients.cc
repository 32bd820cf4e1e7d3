#include "tandem/sync/shard_gradients.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"

namespace tandem::sync {

ShardGradients::ShardGradients(Replica& replica, const model::FlatParameters::Allocate& allocate)
    : replica_(replica), tree_(replica.placement().mine.size()) {
  const c10::Device device = replica.placement().device;
  const model::FlatParameters::Allocate own = [device](std::int64_t count, at::ScalarType dtype) {
    return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device));
  };
  for (int set = 0; set < tree_.buffers(); ++set) {
    const model::FlatParameters::Allocate& from = set == 0 ? allocate : own;
    sets_.push_back(replica.parameters().make_gradients(from));
    tallies_.push_back(at::zeros({3}, at::kDouble));
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
    sparse_.clear();
  } else {
    replica_.buffers().restore_start();
  }
  replica_.parameters().bind(sets_[static_cast<std::size_t>(tree_.next())]);
  in_pass_ = true;
}

void ShardGradients::close(double weight, double loss) {
  TANDEM_CHECK(in_pass_, "close() without open()");
  in_pass_ = false;
  replica_.parameters().collect();
  const at::NoGradGuard no_grad;
  const auto set = static_cast<std::size_t>(tree_.next());
  double* tally = tallies_[set].data_ptr<double>();
  tally[0] = weight;
  tally[1] = 1;
  tally[2] = weight * loss;
  take_buffers(replica_.placement().mine.begin + done_, buffer_sums_[set]);
  sparse_.push_back(sets_[set].sparse);
  ++done_;
  tree_.add([this](int into, int from) { merge(static_cast<std::size_t>(into), static_cast<std::size_t>(from)); });
}

// Floating buffers are summed for their mean. Of the others shard 0's remain: every other shard adds zeros.
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

void ShardGradients::merge(std::size_t into, std::size_t from) {
  for (std::size_t b = 0; b < sets_[into].flat.size(); ++b) {
    if (sets_[into].flat[b].defined()) sets_[into].flat[b].add_(sets_[from].flat[b]);
  }
  for (std::size_t i = 0; i < buffer_sums_[into].size(); ++i) buffer_sums_[into][i].add_(buffer_sums_[from][i]);
  double* sum = tallies_[into].data_ptr<double>();
  const double* other = tallies_[from].data_ptr<double>();
  sum[0] += other[0];
  sum[1] += other[1];
  sum[2] += other[2];
}

}  // namespace tandem::sync
