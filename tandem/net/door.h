// net/door.h: where one member of a run lets others in, and how they come there.
//
// A door listens at a place (net/sockets.h). Who connects proves that it knows the door's secret, and the door does so,
// too (net/greeting.h). Any number of strangers may stand at the door: they are greeted side by side, each for five
// seconds, and who is turned away is reported (net/knocks.h).
//
// Threads: single-thread, except for shut(). Blocking: accept() and dial() wait until `limits`, and then throw
// DeadlineExceeded or GroupAborted.
#pragma once
#include <list>
#include <string>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/concurrency/limits.h"
#include "tandem/net/greeting.h"
#include "tandem/net/sockets.h"
#include "tandem/net/stream.h"

namespace tandem::net {

struct DoorOptions {
  Access access = Reach::kEverywhere;
  std::string local{};    // kThisHost: the name of the socket; empty for one that nobody guesses
  int port = 0;           // kEverywhere: zero for a free one
  std::string network{};  // kEverywhere: the interface or address to listen at; empty for all
  std::string secret{};   // may be empty for kThisHost
  std::string name{};     // of what is behind the door, for messages: "the store at port 29500"
};

/// The port, or the name of the socket, is another program's, or not for this user.
struct AddressTaken : RunError {
  using RunError::RunError;
};

class Door {
 public:
  /// Throws RunError when another process listens there, or the system has no socket to give.
  explicit Door(DoorOptions options);

  [[nodiscard]] const Place& place() const { return place_; }
  /// A connection, and the number of who made it.
  struct Accepted {
    Stream stream;
    int caller = 0;
  };
  /// Waits for the next caller that is let in. Throws RunError when the process has too many open files, GroupAborted
  /// when the door is shut and nobody stands there. Who was let in before a stop request is still returned.
  [[nodiscard]] Accepted accept(const Limits& limits);
  /// After this call nobody can connect any more. Threads: all.
  void shut();

 private:
  struct Guest {
    Descriptor socket;
    std::string who;  // asked at once: of who has hung up nothing is known
    AtTheDoor greeting;
    Deadline until;
  };
  void let_stand();
  void turn_away(std::list<Guest>::iterator guest, const std::string& why);
  void await_news(const Limits& limits);

  const DoorOptions options_;
  const Key key_;
  Place place_;
  Descriptor listener_;
  bool is_shut_ = false;     // as accept() has found it
  std::list<Guest> guests_;  // being greeted, the oldest first
};

/// A door that refused this process, or could not show that it is the right one: their secrets differ.
struct OtherSecret : RunError {
  using RunError::RunError;
};

/// Connects to a door, trying all its addresses at once, and takes the first that knows the secret. `caller` is this
/// member's number, `name` what it calls the door. Throws OtherSecret, or RunError that lists the failure of each
/// address. A door that hangs up while it greets is tried again: it may be crowded.
[[nodiscard]] Stream dial(const Place& place, const std::string& secret, int caller, const std::string& name,
                          const Limits& limits);

}  // namespace tandem::net
