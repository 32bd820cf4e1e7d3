#include "tandem/learner/load_plan.h"

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

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

std::int64_t sequences_per_shard_minibatch(const LoadRequest& request, LoadPlan& plan) {
  const std::int64_t wanted_rows = request.minibatch_rows / request.shards;
  std::int64_t sequences = wanted_rows / plan.sequence_length;
  if (sequences < 1) {
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows has less than one sequence of ",
                         plan.sequence_length, " rows for each of ", request.shards, " shards; it is raised to ",
                         plan.sequence_length * request.shards, " rows");
    return 1;
  }
  if (sequences > plan.shard_sequences) {
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows is more than the ",
                         plan.shard_sequences * plan.sequence_length * request.shards,
                         " rows that were loaded; it is lowered to them");
    return plan.shard_sequences;
  }
  if (sequences * plan.sequence_length * request.shards != request.minibatch_rows) {
    plan.notice = concat("a minibatch of ", request.minibatch_rows, " rows is rounded down to ",
                         sequences * plan.sequence_length * request.shards, ": ", sequences, " sequences of ",
                         plan.sequence_length, " rows for each of ", request.shards, " shards");
  }
  return sequences;
}

}  // namespace

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
  plan.minibatch_sequences = sequences_per_shard_minibatch(request, plan);
  const std::int64_t whole = plan.shard_sequences / plan.minibatch_sequences;
  const std::int64_t rest = plan.shard_sequences - whole * plan.minibatch_sequences;
  const std::int64_t row_sets = plan.sequence_length * request.shards;  // rows that one sequence a shard makes
  plan.minibatches = whole + (request.tail != Tail::kDrop && rest > 0 ? 1 : 0);
  const std::int64_t filled = plan.minibatches * plan.minibatch_sequences;
  plan.padded = request.tail == Tail::kPad
                    ? (filled - whole * plan.minibatch_sequences - (plan.minibatches - whole) * rest) * row_sets
                    : 0;
  plan.used = filled * row_sets - plan.padded;
  const std::int64_t distinct = std::min(filled, plan.shard_sequences) * row_sets;
  plan.dropped = plan.offered - distinct;
  return plan;
}

}  // namespace tandem::learner
