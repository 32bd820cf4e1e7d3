// comm/layered_group.h: one group over the members of several inner groups: over the replicas of all processes, or over
// the ranks of all hosts (a hierarchical group). Member 0 of each inner group is its leader; the leaders form the outer
// group. Data crosses the border between inner groups once for each inner group, and not once for each member.
//
// Ranks are numbered over the inner groups in the order of their leaders, and within each in its own order. Sums go
// along the tree of each inner group and then along the tree over the leaders. The bits are those of one flat group
// when the sizes of the inner groups nest (base/summation_tree.h) and the dtype is not Half or BFloat16, which every
// level rounds. A layered group may be an inner or the outer group of another layered group.
//
// Several all_reduces may be started at once. Where the outer group goes on alone and is not layered itself, so does
// this one: a thread carries the sums on (Carrier in comm/layers.h). Sums that are started while the leaders exchange
// an earlier one are summed inside before its result is handed round, so a wait may last until the other members have
// started as many. Elsewhere the work is done in the wait. All members call wait() at the same place among their
// starts, as if it were a collective.
//
// Limits hold for waiting for one's own inner group. A member that waits for its leader, and so perhaps for members of
// other inner groups, waits up to some seconds longer: then the group that misses a member is the one that reports it.
//
// Failure: an abort or a lost member closes all of the groups at once, with its reason, whatever their members do
// meanwhile (Group::on_close()).
#pragma once
#include <memory>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// How the messages of the inner and outer groups name their members.
enum class Names {
  kByPlace,   // by their rank within that group; messages of the layered group then say which group that is
  kOfTheRun,  // by their rank in the run
};

/// Makes this member of the layered group. `inner` is the member of its inner group. `outer` is the leader's member of
/// the group of leaders; only the leader calls operations on it. Another member gives the leader's `outer` if that is
/// in its own process, so that its abort() ends the leader's wait, and otherwise null. The layered group replaces the
/// listeners of `inner` and, on the leader, those of `outer`.
///
/// Waits for all members until `limits`, and fails as an operation does.
[[nodiscard]] std::unique_ptr<Group> make_layered_group(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer,
                                                        const Limits& limits, Names names = Names::kByPlace);

}  // namespace tandem::comm
