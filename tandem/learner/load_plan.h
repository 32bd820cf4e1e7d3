// learner/load_plan.h: how the rows of a batch are cut into shards and minibatches.
//
// After RLlib's LocalSyncParallelOptimizer.load_data, with shards in the place of devices: the batch is cut into equal
// shards in the order of its rows, a replica keeps its shards one after the other, and minibatch b is slice b of every
// shard. What is used and dropped depends on the shards alone, never on the devices. What the batch has beyond a
// multiple of the shards, fewer sequences than there are shards, goes to the first shards, one sequence at the end of
// each. RLlib drops the tail before it splits; here each shard drops its own tail, in each pass (docs/decisions/0041).
// Threads: a pure function on plain values; every rank computes the same plan.
#pragma once
#include <cstdint>
#include <string>

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

}  // namespace tandem::learner
