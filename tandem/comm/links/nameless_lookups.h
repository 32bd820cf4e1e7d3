// comm/nameless_lookups.h: no name server is asked for the names of addresses.
//
// For its log, c10d looks up the name of each address that it is about to connect to. A name server that loses the
// question takes 5 s a try from the time to connect, until none is left, though nobody needs the name. While an object
// of this class lives, what its thread asks is answered in this process, at once: no such name. (glibc keeps its list
// of name servers by thread.)
//
// Threads: an object belongs to the thread that made it; other threads' questions go where they went.
#pragma once
#include <optional>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

class NamelessLookups {
 public:
  /// Changes nothing when the system has no socket to give: the lookups are as slow as they are.
  NamelessLookups();
  ~NamelessLookups();
  NamelessLookups(const NamelessLookups&) = delete;
  NamelessLookups& operator=(const NamelessLookups&) = delete;

 private:
  Descriptor socket_;
  std::optional<Worker> server_;
};

}  // namespace tandem::comm
