// net/contact.h: how one member of a run reaches another directly: a listener, a text that says where it is, and a
// connection to it.
//
// The text goes to the others by whatever they have in common (a group, a store). It names this host's addresses, of
// which the first that answers with the listener's secret is taken: so it does not matter which of them a peer can
// reach, nor who else listens at the same port elsewhere.
//
// Threads: single-thread, but for shut(). Blocking: accept() and dial() wait until `limits`, with DeadlineExceeded or
// GroupAborted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/limits.h"

namespace tandem::net {

/// What a dialling member says of itself.
struct Greeting {
  std::int32_t member = 0;
};

class Listener {
 public:
  /// Listens on a free port of all addresses. Throws RunError when the system has none.
  Listener();

  /// Where and with which secret; one line of text.
  [[nodiscard]] const std::string& contact() const { return contact_; }
  /// The next connection. Not open when its maker did not know the secret, took another of several that it tried, or
  /// said nothing within a second.
  struct Accepted {
    Descriptor socket;
    Greeting greeting;
  };
  [[nodiscard]] Accepted accept(const Limits& limits);
  /// From when this returns nobody can connect any more; accept() gives at most whom it is just greeting. Threads: all.
  void shut();

 private:
  Descriptor socket_;
  std::string secret_, contact_;
};

/// Connects to whom `contact` tells of. Throws RunError that lists what each address answered when none is the
/// listener's.
[[nodiscard]] Descriptor dial(const std::string& contact, const Greeting& greeting, const Limits& limits);

}  // namespace tandem::net
