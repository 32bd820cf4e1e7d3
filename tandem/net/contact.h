// net/contact.h: a door (net/door.h) that members of a run are told of by a line of text, its contact: the door's
// secret, made for it alone, and its place. The member behind the door publishes the text in a group or in the run's
// store, where only members read it.
//
// Threads: single-thread, except for shut(). Blocking: accept() and dial() as those of door.h.
#pragma once
#include <string>

#include "tandem/net/door.h"
#include "tandem/net/sockets.h"

namespace tandem::net {

class Listener {
 public:
  /// `name`: of what is behind the door, for messages; `network`: see DoorOptions. Throws RunError when the system has
  /// no socket to give, ConfigError for a network that this host does not have.
  Listener(Access access, const std::string& name, const std::string& network = "");

  /// The contact, one line of text.
  [[nodiscard]] const std::string& contact() const { return contact_; }
  /// See Door.
  [[nodiscard]] Door::Accepted accept(const Limits& limits) { return door_.accept(limits); }
  void shut() { door_.shut(); }

 private:
  const std::string secret_;
  Door door_;
  std::string contact_;
};

/// What a contact says.
struct Contact {
  std::string secret;
  Place place;
};
/// Throws RunError when the text is no contact: every word of it has its bounds.
[[nodiscard]] Contact read_contact(const std::string& text);

/// Connects to the listener of `contact`. `member` is the number of the member that dials. Throws RunError that lists
/// the failure of each address when none is the listener's, or when the text is no contact.
[[nodiscard]] Stream dial(const std::string& contact, int member, const Limits& limits);

}  // namespace tandem::net
