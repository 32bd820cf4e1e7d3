// net/contact.h: how one member of a run reaches another directly: a listener, a text that says where the listener is,
// and a connection to it.
//
// The listener's member publishes the text (its contact) in a group or a store. The contact names a secret, a port and
// all addresses of the host. A dialling member tries all addresses at once and takes the first connection that answers
// with the secret. So it does not matter which addresses a peer can reach, nor who else listens at the same port
// elsewhere.
//
// The greeting: the dialler sends the first half of the secret and its number, the listener answers with the second
// half, and the dialler says which one of several connections it takes.
//
// Threads: single-thread, except for shut(). Blocking: accept() and dial() wait until `limits`, and then throw
// DeadlineExceeded or GroupAborted.
#pragma once
#include <string>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/limits.h"

namespace tandem::net {

class Listener {
 public:
  /// Listens on a free port of all addresses. Throws RunError when the system has no free port.
  Listener();

  /// The contact, one line of text.
  [[nodiscard]] const std::string& contact() const { return contact_; }
  /// A connection and who made it. The socket is not open when the other end did not know the secret, took another one
  /// of several connections, or said nothing within five seconds.
  struct Accepted {
    Descriptor socket;
    int member = 0;
  };
  /// Waits for the next connection and its greeting. Throws RunError when the process has too many open files.
  [[nodiscard]] Accepted accept(const Limits& limits);
  /// After this call nobody can connect any more. A running accept() may still return the connection that it is
  /// greeting. Threads: all.
  void shut();

 private:
  Descriptor socket_;
  std::string secret_, contact_;
};

/// Connects to the listener of `contact`. Throws RunError that lists the failure of each address when none is the
/// listener's. `member` is the number of the member that dials.
[[nodiscard]] Descriptor dial(const std::string& contact, int member, const Limits& limits);

}  // namespace tandem::net
