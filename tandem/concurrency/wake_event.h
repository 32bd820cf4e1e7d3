// concurrency/wake_event.h: a descriptor by which one thread ends another one's poll().
//
// Threads: all. Blocking: none. Errors: RunError when the system has no descriptor to give.
#pragma once
#include <sys/eventfd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {

/// An eventfd that nobody waits in. `what` needs it, for messages: "host group".
[[nodiscard]] inline Descriptor make_wake_event(std::string_view what) {
  Descriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.is_open()) {
    throw RunError(concat(what, ": eventfd: ", std::generic_category().message(errno),
                          errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
  }
  return made;
}

inline void wake(const Descriptor& event) { (void)::eventfd_write(event.get(), 1); }

}  // namespace tandem
