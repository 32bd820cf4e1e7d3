#include "tandem/learner/replayed_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "tandem/base/check.h"
#include "tandem/concurrency/trace.h"

namespace tandem::learner {
namespace {

// Ordinary runs of each shard before one is recorded: the first runs of an operation choose kernels and take memory for
// good, which a recording may not do. There are two, since only the second meets the memory that the first one left.
constexpr std::int64_t kRunsBefore = 2;

void copy_to_own_memory(Columns& columns) {
  for (auto& [name, column] : columns) column = column.clone();
}

}  // namespace

ReplayedLoss::ReplayedLoss(sync::Replica& replica, RecordableLoss loss)
    : placement_(replica.placement()),
      loss_(std::move(loss)),
      shards_(static_cast<std::size_t>(placement_.mine.size())) {
  TANDEM_CHECK(replica.parameters().start() == model::FlatParameters::Options::Start::kZeros,
               "a replay adds to gradients that are there");
}

// Copies the minibatch and the constants to the shard's own memory. A minibatch of another number of rows takes new
// memory, and what was recorded for the old one is given up.
void ReplayedLoss::take(const LoadedBatch& batch, const ShardRows& rows, std::span<const double> constants,
                        Shard& shard) const {
  const at::NoGradGuard no_grad;
  const Span span("take minibatch");
  const auto count = static_cast<std::int64_t>(constants.size());
  if (shard.runs > 0 && shard.rows.rows == rows.rows) {
    batch.copy_minibatch(rows.shard, rows.minibatch, shard.rows);
  } else {
    shard = Shard{};
    shard.rows = batch.minibatch(rows.shard, rows.minibatch);
    copy_to_own_memory(shard.rows.columns);
    copy_to_own_memory(shard.rows.states);
    shard.constants = at::zeros({count}, at::device(placement_.device).dtype(at::kDouble));
  }
  TANDEM_CHECK(shard.constants.numel() == count, count, " constants, ", shard.constants.numel(), " before");
  shard.constants.copy_(at::tensor(c10::ArrayRef<double>(constants.data(), constants.size()), at::kDouble));
}

// Both passes. On a CUDA device this is also the work that is recorded.
void ReplayedLoss::differentiate(Shard& shard) const {
  const DeviceLoss made = loss_(shard.rows, shard.constants);
  const at::Tensor weight = at::full({}, static_cast<double>(shard.rows.rows), made.loss.options());
  torch::autograd::backward({made.loss}, {weight.expand_as(made.loss)});
  const at::NoGradGuard no_grad;
  shard.results = at::cat({made.loss.detach().reshape({1}).to(at::kDouble), made.numbers.detach().to(at::kDouble)});
}

WrittenLoss ReplayedLoss::run(const LoadedBatch& batch, const ShardRows& rows, std::span<const double> constants) {
  if (rows.rows == 0) return {};
  TANDEM_CHECK(rows.valid_rows == rows.rows, rows.valid_rows, " valid rows of ", rows.rows);
  Shard& its = shards_[static_cast<std::size_t>(rows.shard - placement_.mine.begin)];
  take(batch, rows, constants, its);
  if (its.runs < kRunsBefore) {
    differentiate(its);
  } else {
    if (!its.passes) its.passes = device::record_work(placement_.device, [this, &its] { differentiate(its); });
    its.passes->replay();
  }
  ++its.runs;
  its.host_results = its.results.cpu();
  return {.loss = its.host_results.const_data_ptr<double>()[0], .weight = static_cast<double>(its.rows.rows)};
}

std::span<const double> ReplayedLoss::numbers(int shard) const {
  const Shard& its = shards_[static_cast<std::size_t>(shard - placement_.mine.begin)];
  TANDEM_CHECK(its.host_results.defined(), "numbers of shard ", shard, " before its first run");
  return std::span(its.host_results.const_data_ptr<double>(), static_cast<std::size_t>(its.host_results.numel()))
      .subspan(1);
}

}  // namespace tandem::learner
