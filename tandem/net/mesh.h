// net/mesh.h: connects each member of a group with each other one, for a Wire.
//
//   Mesh mesh(Reach::kEverywhere, "eth1", "the group of all ranks");
//   ... all members tell each other their contact() ...
//   Wire wire(mesh.connect(rank, contacts, limits));
//
// Threads: single-thread. Blocking: connect() until all have come, or until `limits`. Errors: RunError when a member
// cannot be reached, DeadlineExceeded that names the members that did not come, GroupAborted.
#pragma once
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/net/contact.h"
#include "tandem/net/wire.h"

namespace tandem::net {

class Mesh {
 public:
  /// `network`: an interface or an address of this host, by which the others reach it; empty for all that it has. With
  /// one, others reach it from everywhere. `name`: of the group, for messages. Throws ConfigError when this host has no
  /// such network.
  Mesh(Access access, const std::string& network, const std::string& name);

  [[nodiscard]] const std::string& contact() const { return listener_.contact(); }
  /// `contacts`: by rank.
  [[nodiscard]] std::vector<Wire::Ends> connect(int rank, const std::vector<std::string>& contacts,
                                                const Limits& limits);

 private:
  Listener listener_;
};

}  // namespace tandem::net
