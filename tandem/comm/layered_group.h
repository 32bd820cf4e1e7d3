// comm/layered_group.h: the group of all members of several groups: the replicas of all processes, the ranks of all
// hosts. What crosses the border between inner groups crosses it once for each inner group and not once a member.
//
// Ranks run over the inner groups in the order of their leaders, and within each in its own order. Sums go along the
// tree of each inner group and then along the tree over the leaders; these are the bits of one flat group when the
// sizes of the inner groups nest (base/summation_tree.h) and the type is not Half or BFloat16, which each level rounds.
// Layered groups may be inner or outer groups of others.
//
// Several all_reduces may be started at once. Where the outer group goes on alone and is not layered itself, so does
// this one: a thread carries them on (comm/carrier.h), and what is started while the leaders exchange one is summed
// inside before its result is handed round, so a wait may last until the other members have started as many. Elsewhere
// the work is done in the wait. Waits count as operations here: they come at the same place among the starts on all
// members.
//
// Limits are those of waiting for one's own inner group; who waits for a leader, and so perhaps for another group's
// members, waits up to some seconds longer, so that the group that misses a member is the one that says so.
//
// Failure: what closes one of the groups, an abort or a lost member, closes all others at once, with its reason and
// whatever their members do meanwhile (Group::on_close()).
#pragma once
#include <memory>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// How the messages of inner and outer groups call their members.
enum class Names {
  kByPlace,   // by their places in that group: then messages of this one say which group it is
  kOfTheRun,  // by their ranks in the run
};

/// This member's part of the group of all members. `inner`: its place in its inner group, whose rank 0 leads it.
/// `outer`: the leader's place in the group of the leaders, on which it alone does operations; other members hold it
/// when it is in their process, so that their abort() ends the leader's wait, and else give none. This group takes
/// the place of both groups' on_close() listeners, of `outer`'s as the leader.
///
/// Waits for all members, until `limits`, and fails as an operation does.
[[nodiscard]] std::unique_ptr<Group> make_layered_group(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer,
                                                        const Limits& limits, Names names = Names::kByPlace);

}  // namespace tandem::comm
