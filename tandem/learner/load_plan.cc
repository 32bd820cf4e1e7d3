#include "tandem/learner/load_plan.h"

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::learner {
namespace {

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

}  // namespace tandem::learner
