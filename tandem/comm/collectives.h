// comm/collectives.h: collectives for a program of one's own, for tensors of any shape, strides, dtype and device.
//
//     const comm::World world = comm::open_world(comm::launcher_environment(), {});
//     const double accuracy = comm::mean(*world.group, right, rows);       // over all rows of all ranks
//     comm::all_reduce(*world.group, histogram, comm::ReduceOp::kSum);     // in place
//     if (comm::any(*world.group, patience_is_over)) break;                // on all ranks at the same step
//
// All members of the group call the same functions in the same order, and every member gets the same bits. Sums go
// along the tree of group.h.
//
// Threads: each member's own. Ownership: tensors are the caller's. Blocking: each waits for all members until `limits`,
// five minutes if not given. Errors: ConfigError for what cannot be reduced, before anything is exchanged; otherwise as
// Group.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>

#include "tandem/comm/group.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

/// kMean: of floating tensors; the sum, divided once by the number of members. Of Bool tensors kMin is "and", kMax is
/// "or", and there is no sum.
enum class ReduceOp { kSum, kMean, kMin, kMax };

/// Limits of five minutes from now.
[[nodiscard]] inline Limits patient() { return {.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}}; }

/// Replaces `tensor` by its reduction over all members, element by element. Shapes and dtypes are equal on all members.
/// A NaN of any member is NaN in the result.
void all_reduce(Group& group, const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum, const Limits& limits = patient());

/// Copies the tensor of member `root` into that of all others.
void broadcast(Group& group, const at::Tensor& tensor, int root = 0, const Limits& limits = patient());

/// The mean over all members' rows of a number that is each member's mean over `rows` of its own: sum of rows x value,
/// divided by all rows. A member may have 0 rows. Throws ConfigError for rows that are negative or not finite, and on
/// all members when nobody has rows.
[[nodiscard]] double mean(Group& group, double value, double rows = 1, const Limits& limits = patient());

/// Whether any member says yes.
[[nodiscard]] bool any(Group& group, bool mine, const Limits& limits = patient());

}  // namespace tandem::comm
