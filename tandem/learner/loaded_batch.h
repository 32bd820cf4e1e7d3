// learner/loaded_batch.h: a batch cut into a replica's shards and kept until the next load, for any number of passes
// over its minibatches, in any order; and the losses of these.
//
// The batch is kept on the replica's device, so that passes copy nothing from the host; or, when it is larger than the
// device, in (pinned) host memory, from where each minibatch is copied when it is asked for, without waiting for the
// copy. The bits are the same. After RLlib's LocalSyncParallelOptimizer.load_data and optimize, which need the batch on
// the device.
//
// The batch is cut into equal shards in the order of its rows, a replica keeps its shards one after the other, and
// minibatch b is slice b of every shard. What is used and dropped depends on the shards alone, never on the devices.
// What the batch has beyond a multiple of the shards, fewer sequences than there are shards, goes to the first shards,
// one sequence at the end of each. RLlib drops the tail before it splits; here each shard drops its own tail, in each
// pass (docs/decisions/0041).
//
// Threads: single-thread, the replica's. Ownership: shares the memory of columns that lie on the device already, but
// for shards with an extra sequence, whose rows are copied.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tandem/learner/batch.h"
#include "tandem/sync/replica.h"

namespace tandem::learner {

/// The fate of rows that do not fill a whole minibatch. Each shard has a tail of its own, so the choice holds for each
/// of them.
enum class Tail {
  kDrop,  // they are left out; with a shuffled order, other rows in each pass, so that none is left out for ever
  kPad,   // the last minibatch is filled with copies of valid rows that count for nothing
  kWrap,  // the last minibatch is filled from the pass's beginning; those rows count twice
};

/// The rows are those of the whole run, over all ranks.
struct LoadRequest {
  std::int64_t rows = 0;       // offered
  std::int64_t sequences = 0;  // rows of the state columns; 0: a feed-forward model
  int shards = 1;
  std::int64_t minibatch_rows = 0;  // over all shards
  Tail tail = Tail::kDrop;
};

/// The counts of sequences are for one shard each; in a feed-forward model a sequence is one row.
struct LoadPlan {
  std::int64_t sequence_length = 1;      // rows of a sequence; 1 for feed-forward models
  std::int64_t shard_sequences = 0;      // sequences that each shard holds
  std::int64_t extra_sequences = 0;      // the first so many shards hold one more
  std::int64_t minibatch_sequences = 0;  // sequences of a shard in one minibatch
  std::int64_t minibatches = 0;          // of a pass
  std::int64_t offered = 0, used = 0, dropped = 0,
               padded = 0;  // rows of one pass, over all shards; wrapped rows count as used
  std::string notice;       // a sentence about what differs from the request; empty when nothing does

  /// `shard` is its number in the run. Extra sequences go to the first shards.
  [[nodiscard]] std::int64_t sequences_of(int shard) const {
    return shard_sequences + (shard < extra_sequences ? 1 : 0);
  }
  /// Rows that the shard holds, over all minibatches and without padding.
  [[nodiscard]] std::int64_t rows_of(int shard) const { return sequences_of(shard) * sequence_length; }
  /// Rows of one shard in one minibatch, padding included.
  [[nodiscard]] std::int64_t minibatch_shard_rows() const { return minibatch_sequences * sequence_length; }
};

/// Throws DataError when rows are not a multiple of the sequences, or when there are fewer sequences than shards;
/// ConfigError when a count is not positive or the minibatch has fewer rows than there are shards. A minibatch smaller
/// than a sequence a shard is raised to that, one larger than the data lowered to all of it, and one that no whole
/// number of sequences a shard makes up is rounded down; `notice` says so.
[[nodiscard]] LoadPlan plan_load(const LoadRequest& request);

/// The rows of one shard in one minibatch. The tensors are on the replica's device, and may be views of the loaded
/// batch, so nobody writes to them.
struct ShardBatch {
  int shard = 0;               // of the run
  std::int64_t minibatch = 0;  // of the pass
  std::int64_t rows = 0;       // of the columns, padding included
  std::int64_t valid_rows = 0;
  Columns columns;   // [rows, ...]
  Columns states;    // [sequences, ...]
  at::Tensor valid;  // [rows] bool: false in padding; undefined when every row is valid

  /// The column called `name`. Throws DataError when there is none.
  [[nodiscard]] const at::Tensor& operator[](const std::string& name) const { return column(columns, name); }
};

/// The rows of one shard in one minibatch, where they lie in the loaded batch. Nothing is copied to make one.
struct ShardRows {
  int shard = 0;
  std::int64_t minibatch = 0;
  const Columns& columns;  // of the whole shard, on the device or the host as Residence says
  const Columns& states;
  std::span<const std::int64_t> order;  // row i of the minibatch is row order[i] of the columns; empty: first + i.
                                        // On the host wherever the columns lie
  std::int64_t first = 0;
  std::int64_t rows = 0;  // padding included, which comes last
  std::int64_t valid_rows = 0;

  /// The row of the columns that is row i of the minibatch.
  [[nodiscard]] std::int64_t row(std::int64_t i) const {
    return order.empty() ? first + i : order[static_cast<std::size_t>(i)];
  }
};

// --- the losses of these rows that a Learner takes ---

/// A part of a loss, for the message when the loss is not finite: the first that is not is named. `name` is a literal.
struct LossPart {
  const char* name = nullptr;  // null: none
  double value = 0;
};
using LossParts = std::array<LossPart, 4>;

struct ShardLoss {
  at::Tensor loss;    // scalar: the mean over the shard's valid rows
  double weight = 0;  // rows (or valid elements) that the mean is over; 0: the shard has none and contributes nothing
  Columns outputs{};  // tensors that the program wants of every shard; kept, detached, until the next step
  LossParts parts{};
};

/// Computes the loss of one shard with the replica's module, on the replica's thread. Random operations use
/// model::current_generator(), or modules that do (nn::Dropout). The learner calls it once for each shard of a
/// minibatch, in the order of the shards.
using LossFunction = std::function<ShardLoss(const ShardBatch&)>;

/// The result of a GradientFunction.
struct WrittenLoss {
  double loss = 0;    // the mean over the shard's valid rows
  double weight = 0;  // as ShardLoss::weight; 0: nothing needs to have been written
  LossParts parts{};
};

/// Computes the loss of one shard without autograd, and itself writes `weight` times the gradient into the .grad of
/// every dense parameter of the replica's module. Each .grad is zeroed memory laid out as the parameter. A parameter
/// whose .grad stays zero takes part with the gradient zero; for a parameter that takes no part, the function resets
/// .grad. The rows are given where they lie, so that the function gathers only what it needs.
using GradientFunction = std::function<WrittenLoss(const ShardRows&)>;

/// In which order a pass takes the sequences of a shard.
enum class Order { kSequential, kShuffled };

/// The place of a loaded batch.
enum class Residence {
  kDevice,  // the replica's
  kHost,    // the host's memory, pinned when the device is a CUDA device; the device needs room for a few minibatches
};

class LoadedBatch {
 public:
  /// Holds nothing until the first load.
  explicit LoadedBatch(const sync::Placement& placement, Residence residence = Residence::kDevice)
      : placement_(placement), residence_(residence) {}

  /// Cuts the whole batch, which every replica sees, and keeps this replica's shards. Throws as plan_load() does,
  /// DataError when columns differ in their rows, and RunError when the device's memory does not hold them. The plan
  /// that is returned is valid until the next load.
  const LoadPlan& load(const Batch& batch, std::int64_t minibatch_rows, Tail tail);
  /// Takes shards that are cut already, one batch for each of this replica's shards, in order, of equal rows
  /// everywhere.
  const LoadPlan& load_shards(std::span<const Batch> shards, std::int64_t minibatch_rows, Tail tail);

  /// Takes shards that may have different numbers of rows, or of sequences, and different lengths of sequences. Each
  /// shard is cut into `minibatches` parts whose rows, or sequences, differ by one at most. A minibatch has one part of
  /// each shard, which may have no row.
  const LoadPlan& load_uneven(std::span<const Batch> shards, std::int64_t minibatches);

  /// Makes the order of the next pass: a function of the run's seed, the shard and the number of the pass alone. The
  /// order is of whole sequences; the rows within a sequence keep theirs.
  void begin_pass(Order order, std::uint64_t run_seed, std::uint64_t pass);

  /// Slice `minibatch` of `shard` (its number in the run) in the order of the pass: views where the order is
  /// sequential, else gathered rows. Throws ConfigError when either number is out of range, or nothing was loaded.
  [[nodiscard]] ShardBatch minibatch(int shard, std::int64_t minibatch) const;

  /// The rows of that slice where they lie; valid until the next begin_pass() or load. Throws as minibatch() does.
  [[nodiscard]] ShardRows rows_of_minibatch(int shard, std::int64_t minibatch) const;

  /// Copies the slice into the columns and states of `memory`, which are tensors of a minibatch() with as many rows.
  void copy_minibatch(int shard, std::int64_t minibatch, ShardBatch& memory) const;

  /// One column of a minibatch, for statistics that are wanted before its step. Throws as minibatch() does, and
  /// DataError when there is no such column.
  [[nodiscard]] at::Tensor column_of_minibatch(const std::string& name, int shard, std::int64_t minibatch) const;

  /// The plan of the newest load.
  [[nodiscard]] const LoadPlan& plan() const { return plan_; }

 private:
  // One shard of this replica: its rows, and their order in the pass.
  struct Shard {
    Columns columns, states;
    at::Tensor sequences, rows;  // order of the pass, on the columns' device; undefined: the columns' own order
    at::Tensor host_rows;        // `rows` on the host
    std::int64_t length = 1;     // rows of a sequence
    std::int64_t uneven = -1;    // sequences of the shard, after load_uneven(); else -1
  };
  // A range of sequences in the order of the pass.
  struct Slice {
    std::int64_t first = 0, count = 0, length = 1;
    [[nodiscard]] std::int64_t first_row() const { return first * length; }
    [[nodiscard]] std::int64_t rows() const { return count * length; }
  };
  // The part of a shard's pass that a minibatch takes, and how many of its rows are no padding.
  [[nodiscard]] Slice slice_of(int number, const Shard& shard, std::int64_t minibatch) const;
  [[nodiscard]] std::int64_t valid_rows(int shard, const Slice& slice) const;
  // Checks both numbers, for minibatch() and its like.
  [[nodiscard]] const Shard& shard_at(int shard, std::int64_t minibatch) const;
  // Sequences of a batch that belong to one shard: [first, first + count), and sequence `extra`, unless it is negative.
  struct Portion {
    std::int64_t first = 0, count = 0, extra = -1;
  };
  // Drops the batch before, so that the memory of two batches is never needed at once.
  void forget();
  // take() keeps the rows and states of one shard, and throws RunError when memory is short.
  void take(const Batch& batch, const Portion& portion, Shard& shard);
  // Brings the portion's rows to where they are kept: as views where that is possible, and otherwise as copies.
  void keep(const Columns& columns, const Portion& portion, std::int64_t length, Columns& kept) const;
  // `count` rows of the order from position `first` on, on the replica's device; without an order, of the column
  // itself.
  [[nodiscard]] at::Tensor select(const at::Tensor& column, const at::Tensor& order, std::int64_t first,
                                  std::int64_t count) const;
  [[nodiscard]] Columns select(const Columns& columns, const at::Tensor& order, std::int64_t first,
                               std::int64_t count) const;
  // Copies the selected rows into tensors that exist already.
  void copy_selected(const Columns& columns, const at::Tensor& order, std::int64_t first, std::int64_t count,
                     Columns& memory) const;

  const sync::Placement placement_;
  const Residence residence_;
  LoadPlan plan_;
  Tail tail_ = Tail::kDrop;
  std::vector<Shard> shards_;        // empty until something was loaded
  std::vector<std::int64_t> order_;  // of one shard's sequences, while begin_pass() makes it
};

}  // namespace tandem::learner
