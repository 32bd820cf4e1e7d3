// comm/links/linked_member.h: a member of a group across a network, over PeerLinks (comm/links/peer_links.h). Internal.
#pragma once
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// How messages name a member.
struct MemberName {
  int rank = 0;         // the rank in the run
  std::string process;  // "process 77 on gpu-a"
};

/// The connections between the members. Each backend is for this group alone.
struct LinkedMemberOptions {
  int rank = 0;
  std::vector<MemberName> names = {};                     // all members' names, by rank
  c10::intrusive_ptr<c10d::Backend> backend = {};         // sends from this host's memory (Gloo)
  c10::intrusive_ptr<c10d::Backend> device_backend = {};  // sends from devices (NCCL); null: through the host's memory
};

/// Does not wait. The group's threads, blocking and errors are those of c10d_group.h.
/// Bytes travel by the backends alone, through PeerWire and DeviceExchange.
[[nodiscard]] std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options);

}  // namespace tandem::comm
