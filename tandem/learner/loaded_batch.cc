#include "tandem/learner/loaded_batch.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"

namespace tandem::learner {
namespace {

// The states of a batch, one for each sequence; 0 without.
std::int64_t sequences_of(const Batch& batch) { return batch.states.empty() ? 0 : rows_of(batch.states); }

// Turns indices of sequences into indices of rows: sequence s is rows s * length + 0 .. length - 1.
at::Tensor rows_of_sequences(const at::Tensor& sequences, std::int64_t length) {
  if (length == 1) return sequences;
  return (sequences.unsqueeze(1) * length + at::arange(length, at::kLong).unsqueeze(0)).reshape({-1});
}

// Faults of the options are ConfigErrors, those of the batch DataErrors.
void require_usable(const LoadRequest& request) {
  if (request.shards < 1) throw ConfigError(concat("shards is ", request.shards, "; it must be at least 1"));
  if (request.minibatch_rows < request.shards) {
    throw ConfigError(concat("a minibatch of ", request.minibatch_rows, " rows cannot be cut into ", request.shards,
                             " shards; raise the minibatch size to at least ", request.shards, " or lower the shards"));
  }
  if (request.rows < 1) throw DataError("the batch has no rows");
  if (request.sequences > 0 && request.rows % request.sequences != 0) {
    throw DataError(concat("the batch has ", request.rows, " rows but ", request.sequences,
                           " states; rows must be a multiple of the states, one state a sequence"));
  }
}

// Sequences of each shard in a minibatch: as asked for where that is a whole number of sequences, else as plan_load()
// says, with a notice.
std::int64_t sequences_per_shard_minibatch(const LoadRequest& request, LoadPlan& plan) {
  const std::int64_t most = plan.shard_sequences + (request.tail != Tail::kDrop && plan.extra_sequences > 0 ? 1 : 0);
  const std::int64_t wanted_rows = request.minibatch_rows / request.shards;
  std::int64_t sequences = wanted_rows / plan.sequence_length;
  if (sequences < 1) {
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows has less than one sequence of ",
                         plan.sequence_length, " rows for each of ", request.shards, " shards; it is raised to ",
                         plan.sequence_length * request.shards, " rows");
    return 1;
  }
  if (sequences > most) {
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows is more than the ", request.rows,
                         " rows that were loaded; it is lowered to ", most * plan.sequence_length * request.shards,
                         " rows, ", most * plan.sequence_length, " for each of ", request.shards, " shards");
    return most;
  }
  if (sequences * plan.sequence_length * request.shards != request.minibatch_rows) {
    const std::string share = plan.sequence_length == 1
                                  ? concat(sequences, " rows")
                                  : concat(sequences, " sequences of ", plan.sequence_length, " rows");
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows is rounded down to ",
                         sequences * plan.sequence_length * request.shards, ": ", share, " for each of ",
                         request.shards, " shards");
  }
  return sequences;
}

}  // namespace

// Counts in sequences, which are rows for feed-forward models, and turns the results into rows at the end.
LoadPlan plan_load(const LoadRequest& request) {
  require_usable(request);
  LoadPlan plan;
  plan.offered = request.rows;
  if (request.sequences > 0) plan.sequence_length = request.rows / request.sequences;
  const std::int64_t sequences = request.rows / plan.sequence_length;
  if (sequences < request.shards) {
    throw DataError(
        concat("the batch has ", sequences, " sequences of ", plan.sequence_length, " rows for ", request.shards,
               " shards; each needs at least one: load more rows, shorten the sequences or lower the shards"));
  }
  plan.shard_sequences = sequences / request.shards;
  plan.extra_sequences = sequences % request.shards;
  plan.minibatch_sequences = sequences_per_shard_minibatch(request, plan);
  const std::int64_t each = plan.minibatch_sequences;
  plan.minibatches =
      request.tail == Tail::kDrop ? plan.shard_sequences / each : (plan.sequences_of(0) + each - 1) / each;
  const std::int64_t filled = plan.minibatches * each * plan.sequence_length * request.shards;
  plan.padded = request.tail == Tail::kPad ? filled - plan.offered : 0;
  plan.used = filled - plan.padded;
  plan.dropped = request.tail == Tail::kDrop ? plan.offered - plan.used : 0;
  return plan;
}

// A shard gets a range of the batch and, if the batch does not divide evenly, one of the sequences at its end.
const LoadPlan& LoadedBatch::load(const Batch& batch, std::int64_t minibatch_rows, Tail tail) {
  plan_ = plan_load({.rows = rows_of(batch.columns),
                     .sequences = sequences_of(batch),
                     .shards = placement_.shards,
                     .minibatch_rows = minibatch_rows,
                     .tail = tail});
  tail_ = tail;
  forget();
  const std::int64_t each = plan_.shard_sequences;
  for (int shard = placement_.mine.begin; shard < placement_.mine.end; ++shard) {
    const bool has_extra = shard < plan_.extra_sequences;
    take(batch, {.first = shard * each, .count = each, .extra = has_extra ? placement_.shards * each + shard : -1},
         shards_[static_cast<std::size_t>(shard - placement_.mine.begin)]);
  }
  return plan_;
}

// Every shard must have as many rows, and sequences, as the others, here and, unchecked, on other replicas: the plan is
// made for all of them from this replica's.
const LoadPlan& LoadedBatch::load_shards(std::span<const Batch> shards, std::int64_t minibatch_rows, Tail tail) {
  const Span span("load");
  TANDEM_EXPECTS(static_cast<int>(shards.size()) == placement_.mine.size(), shards.size(), " batches for ",
                 placement_.mine.size(), " shards; give one for each");
  const std::int64_t rows = rows_of(shards.front().columns), states = sequences_of(shards.front());
  const auto require_equal = [](const char* what, std::int64_t its, std::int64_t others) {
    if (its == others) return;
    throw DataError(concat("a shard has ", its, " ", what, ", another ", others, "; all must have equally many"));
  };
  for (const Batch& shard : shards) {
    require_equal("rows", rows_of(shard.columns), rows);
    require_equal("states", sequences_of(shard), states);
  }
  plan_ = plan_load({.rows = rows * placement_.shards,
                     .sequences = states * placement_.shards,
                     .shards = placement_.shards,
                     .minibatch_rows = minibatch_rows,
                     .tail = tail});
  tail_ = tail;
  forget();
  for (std::size_t i = 0; i < shards.size(); ++i)
    take(shards[i], {.first = 0, .count = plan_.shard_sequences}, shards_[i]);
  return plan_;
}

// The plan has minibatches only: rows differ from shard to shard, so the counts of a plan would have no meaning.
const LoadPlan& LoadedBatch::load_uneven(std::span<const Batch> shards, std::int64_t minibatches) {
  const Span span("load");
  TANDEM_EXPECTS(static_cast<int>(shards.size()) == placement_.mine.size(), shards.size(), " batches for ",
                 placement_.mine.size(), " shards; give one for each");
  TANDEM_EXPECTS(minibatches >= 1, minibatches, " minibatches; give 1 or more");
  plan_ = LoadPlan{};
  plan_.minibatches = minibatches;
  tail_ = Tail::kDrop;
  forget();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::int64_t rows = rows_of(shards[i].columns);
    const std::int64_t sequences = shards[i].states.empty() ? rows : rows_of(shards[i].states);
    TANDEM_CHECK(sequences == 0 ? rows == 0 : rows % sequences == 0, rows, " rows of ", sequences, " sequences");
    shards_[i].length = sequences == 0 ? 1 : rows / sequences;
    shards_[i].uneven = sequences;
    take(shards[i], {.first = 0, .count = sequences}, shards_[i]);
  }
  return plan_;
}

// Gives the tensors up before the next batch is taken, so that both are not in memory at once; the lists are used
// again.
void LoadedBatch::forget() {
  shards_.resize(static_cast<std::size_t>(placement_.mine.size()));
  for (Shard& shard : shards_) {
    for (Columns* columns : {&shard.columns, &shard.states}) {
      for (auto& [name, column] : *columns) column.reset();
    }
    for (at::Tensor* order : {&shard.sequences, &shard.rows, &shard.host_rows}) order->reset();
    shard.length = plan_.sequence_length;
    shard.uneven = -1;
  }
}

// Keeps one shard's rows of the batch. Memory of a device that is too small is the user's to mend.
void LoadedBatch::take(const Batch& batch, const Portion& portion, Shard& shard) {
  try {
    keep(batch.columns, portion, shard.length, shard.columns);
    keep(batch.states, portion, 1, shard.states);
  } catch (const c10::OutOfMemoryError& error) {
    throw RunError(
        concat("a batch of ", rows_of(batch.columns), " rows does not fit on ", placement_.device.str(),
               "; load smaller ones, or keep it on the host (Residence::kHost): ", error.what_without_backtrace()));
  }
}

// Columns that lie where they are wanted are shared, not copied, unless the shard has an extra sequence.
void LoadedBatch::keep(const Columns& columns, const Portion& portion, std::int64_t length, Columns& kept) const {
  const bool on_host = residence_ == Residence::kHost;
  kept.resize(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& [name, column] = columns[i];
    at::Tensor rows = column.narrow(0, portion.first * length, portion.count * length);
    if (portion.extra >= 0) rows = at::cat({rows, column.narrow(0, portion.extra * length, length)});
    rows = rows.to(on_host ? at::Device(at::kCPU) : placement_.device);
    if (on_host && placement_.device.is_cuda()) rows = rows.pin_memory();
    kept[i].first = name;
    kept[i].second = rows;
  }
}

// The order is made on the host and copied to where the columns lie. A sequential pass without padding needs none: then
// minibatches are views.
void LoadedBatch::begin_pass(Order order, std::uint64_t run_seed, std::uint64_t pass) {
  const Span span("shuffle");
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    const int number = placement_.mine.begin + static_cast<int>(i);
    const bool is_even = shard.uneven < 0;
    const std::int64_t held = is_even ? plan_.sequences_of(number) : shard.uneven;
    const std::int64_t positions = is_even ? plan_.minibatches * plan_.minibatch_sequences : held;
    if (order == Order::kSequential && positions <= held) {
      shard.sequences = shard.rows = shard.host_rows = at::Tensor();
      continue;
    }
    order_.resize(static_cast<std::size_t>(held));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    if (order == Order::kShuffled) {
      Philox random(derive_seed(run_seed, SeedPurpose::kShuffle, static_cast<std::uint64_t>(number)), pass);
      shuffle(std::span(order_), random);
    }
    // Padding repeats the first sequence of the order, wrapping takes up the order from its beginning.
    for (std::int64_t at = held; at < positions; ++at) {
      const std::int64_t from = tail_ == Tail::kPad ? 0 : at % held;
      order_.push_back(order_[static_cast<std::size_t>(from)]);
    }
    order_.resize(static_cast<std::size_t>(positions));
    const at::Tensor chosen = at::tensor(order_, at::kLong);
    const c10::Device beside = residence_ == Residence::kHost ? c10::Device(c10::kCPU) : placement_.device;
    shard.host_rows = rows_of_sequences(chosen, shard.length);
    shard.rows = shard.host_rows.to(beside);
    shard.sequences = chosen.to(beside);
  }
}

const LoadedBatch::Shard& LoadedBatch::shard_at(int shard, std::int64_t minibatch) const {
  TANDEM_EXPECTS(!shards_.empty(), "a minibatch with no data loaded");
  TANDEM_EXPECTS(shard >= placement_.mine.begin && shard < placement_.mine.end, "shard ", shard, " of another replica");
  TANDEM_EXPECTS(minibatch >= 0 && minibatch < plan_.minibatches, "minibatch ", minibatch, " of ", plan_.minibatches);
  return shards_[static_cast<std::size_t>(shard - placement_.mine.begin)];
}

// Uneven shards: parts differ by one sequence, and which minibatches get the larger parts differs from shard to shard,
// so that no minibatch gets all of them.
LoadedBatch::Slice LoadedBatch::slice_of(int number, const Shard& shard, std::int64_t minibatch) const {
  const std::int64_t count = plan_.minibatch_sequences;
  if (shard.uneven < 0) return {.first = minibatch * count, .count = count, .length = shard.length};
  const std::int64_t first_to_get_more = number % plan_.minibatches;
  const auto cut = [&](std::int64_t part) { return (shard.uneven * part + first_to_get_more) / plan_.minibatches; };
  return {.first = cut(minibatch), .count = cut(minibatch + 1) - cut(minibatch), .length = shard.length};
}

// Rows [first, first + count) of the order, on the replica's device. Copies from pinned memory are not waited for: the
// operations that use the result are queued behind them on the device.
at::Tensor LoadedBatch::select(const at::Tensor& column, const at::Tensor& order, std::int64_t first,
                               std::int64_t count) const {
  // A view where the column is on the device already.
  if (!order.defined()) return column.narrow(0, first, count).to(placement_.device, /*non_blocking=*/true);
  const at::Tensor indices = order.narrow(0, first, count);
  if (column.device() == placement_.device) return column.index_select(0, indices);
  std::vector<std::int64_t> shape = column.sizes().vec();
  shape.front() = count;
  // The rows are gathered into pinned memory on the host, because the device can copy from there by itself.
  at::Tensor staged = at::empty(shape, column.options().pinned_memory(placement_.device.is_cuda()));
  at::index_select_out(staged, column, 0, indices);
  return staged.to(placement_.device, /*non_blocking=*/true);
}

Columns LoadedBatch::select(const Columns& columns, const at::Tensor& order, std::int64_t first,
                            std::int64_t count) const {
  Columns result;
  for (const auto& [name, column] : columns) result.emplace_back(name, select(column, order, first, count));
  return result;
}

void LoadedBatch::copy_selected(const Columns& columns, const at::Tensor& order, std::int64_t first, std::int64_t count,
                                Columns& memory) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const at::Tensor& from = columns[i].second;
    at::Tensor& to = memory[i].second;
    if (order.defined() && from.device() == placement_.device) {
      at::index_select_out(to, from, 0, order.narrow(0, first, count));
    } else {
      to.copy_(select(from, order, first, count));
    }
  }
}

at::Tensor LoadedBatch::column_of_minibatch(const std::string& name, int shard, std::int64_t minibatch) const {
  const Shard& from = shard_at(shard, minibatch);
  const Slice slice = slice_of(shard, from, minibatch);
  return select(column(from.columns, name), from.rows, slice.first_row(), slice.rows());
}

// The rows before the padding, if there is any.
std::int64_t LoadedBatch::valid_rows(int shard, const Slice& slice) const {
  if (tail_ != Tail::kPad) return slice.rows();
  return std::clamp<std::int64_t>(plan_.rows_of(shard) - slice.first_row(), 0, slice.rows());
}

ShardRows LoadedBatch::rows_of_minibatch(int shard, std::int64_t minibatch) const {
  const Shard& from = shard_at(shard, minibatch);
  const Slice slice = slice_of(shard, from, minibatch);
  ShardRows result{.shard = shard,
                   .minibatch = minibatch,
                   .columns = from.columns,
                   .states = from.states,
                   .order = {},
                   .first = slice.first_row(),
                   .rows = slice.rows(),
                   .valid_rows = valid_rows(shard, slice)};
  if (from.host_rows.defined()) {
    result.order = std::span(from.host_rows.const_data_ptr<std::int64_t>() + slice.first_row(),
                             static_cast<std::size_t>(slice.rows()));
  }
  return result;
}

// The states of a recurrent model follow the sequences, the columns their rows. Padding comes last, so `valid` compares
// numbers of rows.
ShardBatch LoadedBatch::minibatch(int shard, std::int64_t minibatch) const {
  const Span span("take minibatch");
  const Shard& from = shard_at(shard, minibatch);
  const Slice slice = slice_of(shard, from, minibatch);
  ShardBatch batch{.shard = shard,
                   .minibatch = minibatch,
                   .rows = slice.rows(),
                   .valid_rows = valid_rows(shard, slice),
                   .columns = select(from.columns, from.rows, slice.first_row(), slice.rows()),
                   .states = select(from.states, from.sequences, slice.first, slice.count),
                   .valid = {}};
  if (batch.valid_rows < batch.rows) {
    batch.valid =
        at::arange(batch.rows, at::TensorOptions().dtype(at::kLong).device(placement_.device)) < batch.valid_rows;
  }
  return batch;
}

void LoadedBatch::copy_minibatch(int shard, std::int64_t minibatch, ShardBatch& memory) const {
  const Shard& from = shard_at(shard, minibatch);
  const Slice slice = slice_of(shard, from, minibatch);
  TANDEM_CHECK(memory.rows == slice.rows() && memory.columns.size() == from.columns.size() &&
                   memory.states.size() == from.states.size(),
               slice.rows(), " rows of ", from.columns.size(), " columns into ", memory.rows, " of ",
               memory.columns.size());
  memory.shard = shard;
  memory.minibatch = minibatch;
  memory.valid_rows = valid_rows(shard, slice);
  copy_selected(from.columns, from.rows, slice.first_row(), slice.rows(), memory.columns);
  copy_selected(from.states, from.sequences, slice.first, slice.count, memory.states);
}

}  // namespace tandem::learner
