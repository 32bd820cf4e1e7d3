#include "tandem/learner/loaded_batch.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/permutation.h"
#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

Columns slice(const Columns& columns, std::int64_t first, std::int64_t count, const c10::Device& device) {
  Columns result;
  for (const auto& [name, tensor] : columns) result.emplace_back(name, tensor.narrow(0, first, count).to(device));
  return result;
}

Columns gather(const Columns& columns, const at::Tensor& indices) {
  Columns result;
  for (const auto& [name, tensor] : columns) result.emplace_back(name, tensor.index_select(0, indices));
  return result;
}

// Row indices of the sequences: sequence s is rows s * length + 0 .. length - 1.
at::Tensor rows_of_sequences(const at::Tensor& sequences, std::int64_t length) {
  if (length == 1) return sequences;
  return (sequences.unsqueeze(1) * length + at::arange(length, at::kLong).unsqueeze(0)).reshape({-1});
}

}  // namespace

const LoadPlan& LoadedBatch::load(const Batch& batch, std::int64_t minibatch_rows, Tail tail) {
  const std::int64_t states = batch.states.empty() ? 0 : rows_of(batch.states);
  plan_ = plan_load({.rows = rows_of(batch.columns),
                     .sequences = states,
                     .shards = placement_.shards,
                     .minibatch_rows = minibatch_rows,
                     .tail = tail});
  tail_ = tail;
  shards_.clear();
  for (int shard = placement_.mine.begin; shard < placement_.mine.end; ++shard)
    take(batch, shard * plan_.shard_sequences);
  return plan_;
}

const LoadPlan& LoadedBatch::load_shards(const std::vector<Batch>& shards, std::int64_t minibatch_rows, Tail tail) {
  TANDEM_CHECK(static_cast<int>(shards.size()) == placement_.mine.size(), shards.size(), " batches for ",
               placement_.mine.size(), " shards");
  const std::int64_t rows = rows_of(shards.front().columns);
  const std::int64_t states = shards.front().states.empty() ? 0 : rows_of(shards.front().states);
  for (const Batch& shard : shards) {
    if (rows_of(shard.columns) != rows) {
      throw DataError(
          concat("a shard has ", rows_of(shard.columns), " rows, another ", rows, "; all must have equally many"));
    }
    const std::int64_t its_states = shard.states.empty() ? 0 : rows_of(shard.states);
    if (its_states != states) {
      throw DataError(concat("a shard has ", its_states, " states, another ", states, "; all must have equally many"));
    }
  }
  plan_ = plan_load({.rows = rows * placement_.shards,
                     .sequences = states * placement_.shards,
                     .shards = placement_.shards,
                     .minibatch_rows = minibatch_rows,
                     .tail = tail});
  tail_ = tail;
  shards_.clear();
  for (const Batch& shard : shards) take(shard, 0);
  return plan_;
}

void LoadedBatch::take(const Batch& batch, std::int64_t first_sequence) {
  Shard& shard = shards_.emplace_back();
  shard.columns = slice(batch.columns, first_sequence * plan_.sequence_length, plan_.shard_rows(), placement_.device);
  shard.states = slice(batch.states, first_sequence, plan_.shard_sequences, placement_.device);
}

void LoadedBatch::begin_pass(Order order, std::uint64_t run_seed, std::uint64_t pass) {
  const std::int64_t positions = plan_.minibatches * plan_.minibatch_sequences;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    if (order == Order::kSequential && positions <= plan_.shard_sequences) {
      shard.sequences = shard.rows = at::Tensor();
      continue;
    }
    std::vector<std::int64_t> sequences(static_cast<std::size_t>(plan_.shard_sequences));
    std::iota(sequences.begin(), sequences.end(), std::int64_t{0});
    if (order == Order::kShuffled) {
      const auto number = static_cast<std::uint64_t>(placement_.mine.begin) + i;
      Philox random(derive_seed(run_seed, SeedPurpose::kShuffle, number), pass);
      shuffle(std::span(sequences), random);
    }
    // Padding repeats the first sequence of the order, wrapping takes up the order from its beginning.
    for (std::int64_t at = plan_.shard_sequences; at < positions; ++at) {
      const std::int64_t from = tail_ == Tail::kPad ? 0 : at % plan_.shard_sequences;
      sequences.push_back(sequences[static_cast<std::size_t>(from)]);
    }
    sequences.resize(static_cast<std::size_t>(positions));
    const at::Tensor chosen = at::tensor(sequences, at::kLong);
    shard.rows = rows_of_sequences(chosen, plan_.sequence_length).to(placement_.device);
    shard.sequences = chosen.to(placement_.device);
  }
}

const LoadedBatch::Shard& LoadedBatch::shard_at(int shard, std::int64_t minibatch) const {
  TANDEM_CHECK(!shards_.empty(), "no data loaded");
  TANDEM_CHECK(shard >= placement_.mine.begin && shard < placement_.mine.end, "shard ", shard, " of another replica");
  TANDEM_CHECK(minibatch >= 0 && minibatch < plan_.minibatches, "minibatch ", minibatch, " of ", plan_.minibatches);
  return shards_[static_cast<std::size_t>(shard - placement_.mine.begin)];
}

at::Tensor LoadedBatch::column_of_minibatch(const std::string& name, int shard, std::int64_t minibatch) const {
  const Shard& from = shard_at(shard, minibatch);
  const at::Tensor& all = column(from.columns, name);
  const std::int64_t rows = plan_.minibatch_shard_rows(), first = minibatch * rows;
  return from.rows.defined() ? all.index_select(0, from.rows.narrow(0, first, rows)) : all.narrow(0, first, rows);
}

ShardBatch LoadedBatch::minibatch(int shard, std::int64_t minibatch) const {
  const Shard& from = shard_at(shard, minibatch);
  const std::int64_t rows = plan_.minibatch_shard_rows(), first = minibatch * rows;
  const std::int64_t sequences = plan_.minibatch_sequences, first_sequence = minibatch * sequences;
  ShardBatch batch{.shard = shard,
                   .minibatch = minibatch,
                   .rows = rows,
                   .valid_rows = rows,
                   .columns = {},
                   .states = {},
                   .valid = {}};
  if (from.rows.defined()) {
    batch.columns = gather(from.columns, from.rows.narrow(0, first, rows));
    batch.states = gather(from.states, from.sequences.narrow(0, first_sequence, sequences));
  } else {
    batch.columns = slice(from.columns, first, rows, placement_.device);
    batch.states = slice(from.states, first_sequence, sequences, placement_.device);
  }
  if (tail_ == Tail::kPad && first + rows > plan_.shard_rows()) {
    batch.valid_rows = plan_.shard_rows() - first;
    batch.valid = at::arange(rows, at::TensorOptions().dtype(at::kLong).device(placement_.device)) < batch.valid_rows;
  }
  return batch;
}

}  // namespace tandem::learner
