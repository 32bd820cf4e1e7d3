// comm/linked_member.h: a member of a group whose members are joined by links (comm/peer_links.h). Internal.
#pragma once
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// What messages call a member.
struct MemberName {
  int rank = 0;         // in the run
  std::string process;  // "process 77 on gpu-a"
};

/// What joins the members. Each backend has its tags, or connections, for this group alone.
struct LinkedMemberOptions {
  int rank = 0;
  std::vector<MemberName> names = {};                     // of all members, by rank
  c10::intrusive_ptr<c10d::Backend> backend = {};         // for this host's memory
  c10::intrusive_ptr<c10d::Backend> device_backend = {};  // for that of devices; without it, it goes by the host's
};

[[nodiscard]] std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options);

}  // namespace tandem::comm
