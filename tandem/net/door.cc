#include "tandem/net/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "tandem/base/digest/hmac.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/net/knocks.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kToGreet = 5s;
// Who stands longest goes first when more come. Small beside the open files that a process may have.
constexpr std::size_t kMostGuests = 128;
constexpr auto kBetweenCalls = 20ms;

constexpr const char* kMoreFiles = "; raise the limit of open files (ulimit -n)";

bool is_shortage(int error) { return error == EMFILE || error == ENFILE; }

std::string error_text(int error) { return std::generic_category().message(error); }

DoorOptions named(DoorOptions options) {
  if (options.access.reach == Reach::kThisHost && options.local.empty()) options.local = "tandem/" + random_hex(16);
  return options;
}

Descriptor listen_at(const DoorOptions& options) {
  Descriptor socket = options.access.reach == Reach::kThisHost ? listen_locally(options.local)
                      : options.network.empty()                ? listen_to_all(options.port)
                                                               : listen_to(address_on(options.network), options.port);
  if (socket.is_open()) return socket;
  const int error = errno;
  const std::string failure = concat("cannot open the door of ", options.name, ": ", error_text(error));
  if (error == EADDRINUSE || error == EACCES) throw AddressTaken(failure);
  throw RunError(concat(failure, is_shortage(error) ? kMoreFiles : ""));
}

Place place_of(const DoorOptions& options, const Descriptor& socket) {
  if (options.access.reach == Reach::kThisHost) return {.local = options.local};
  std::vector<std::string> addresses = own_addresses();
  if (!options.network.empty()) addresses = {address_on(options.network)};
  return {.local = {}, .addresses = std::move(addresses), .port = net::port_of(socket)};
}

}  // namespace

Door::Door(DoorOptions options)
    : options_(named(std::move(options))), key_(key_of(options_.secret)), listener_(listen_at(options_)) {
  place_ = place_of(options_, listener_);
}

void Door::shut() { ::shutdown(listener_.get(), SHUT_RDWR); }

// Takes one connection that waits at the listener.
void Door::let_stand() {
  Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    if (is_shortage(errno))
      throw RunError(concat(options_.name, " cannot accept a member: ", error_text(errno), kMoreFiles));
    return;
  }
  std::string who = peer_of(socket);
  if (!is_of_this_user(socket)) return report_knock(options_.name, who, "is of another user");
  if (guests_.size() == kMostGuests) {
    const auto stranger =
        std::ranges::find_if(guests_, [](const Guest& it) { return !it.greeting.knows_the_secret(); });
    if (stranger == guests_.end()) return;  // hangs up, and is not told why: members come again
    turn_away(stranger, "said nothing while many others came");
  }
  const int number = socket.get();
  guests_.push_back(Guest{.socket = std::move(socket),
                          .who = std::move(who),
                          .greeting = AtTheDoor(number, key_, options_.access.traffic),
                          .until = Deadline::after(kToGreet)});
}

void Door::turn_away(std::list<Guest>::iterator guest, const std::string& why) {
  report_knock(options_.name, guest->who, why);
  guests_.erase(guest);
}

// Waits until somebody comes or speaks, or a guest has stood too long.
void Door::await_news(const Limits& limits) {
  // A listener that is shut has an event at all times.
  std::vector<pollfd> waits{{is_shut_ ? -1 : listener_.get(), POLLIN, 0}};
  for (const Guest& guest : guests_) waits.push_back({guest.socket.get(), POLLIN, 0});
  Limits soon = limits;
  if (!guests_.empty())
    soon.deadline = Deadline::after(std::min(limits.deadline.remaining(), guests_.front().until.remaining()));
  try {
    poll_until(waits, soon, concat("a connection to ", options_.name));
  } catch (const DeadlineExceeded&) {
    if (limits.deadline.expired()) throw;
  }
  if ((waits.front().revents & (POLLHUP | POLLERR)) != 0) is_shut_ = true;
  if (!is_shut_ && waits.front().revents != 0) let_stand();
}

// A caller may believe that it is in before this side has read its last word. So whatever had come when the stop was
// requested is looked at once more.
Door::Accepted Door::accept(const Limits& limits) {
  for (;;) {
    const bool is_stopped = limits.stop.stop_requested();
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      const auto next = std::next(guest);
      const Stage stage = guest->greeting.go_on();
      if (stage == Stage::kAdmitted) {
        Accepted accepted{.stream = Stream(std::move(guest->socket), guest->greeting.take_tls()),
                          .caller = guest->greeting.caller()};
        guests_.erase(guest);
        return accepted;
      }
      // Who hangs up may be a member that took another of its connections.
      if (stage == Stage::kGone && guest->greeting.why() == "hung up") {
        guests_.erase(guest);
      } else if (stage == Stage::kRefused || stage == Stage::kGone) {
        turn_away(guest, guest->greeting.why());
      } else if (guest->until.expired()) {
        turn_away(guest, "said nothing for five seconds");
      }
      guest = next;
    }
    if (is_shut_ && guests_.empty()) throw GroupAborted(concat(options_.name, " lets nobody in any more"));
    if (is_stopped) throw GroupAborted(concat("stopped while waiting at ", options_.name));
    await_news(limits);
  }
}

// --- who comes -------------------------------------------------------------------------------------------------------

namespace {

// One way to the door, and how far the attempt has come.
struct Attempt {
  std::string address;  // empty for the local socket
  std::string failure{};
  Descriptor socket{};
  std::optional<Calling> calling{};  // once connected
};

enum class Outcome { kReached, kOtherSecret, kCrowded, kFailed };

// All attempts of one call of a place.
class Call {
 public:
  Call(const Place& place, const Key& key, int caller, const std::string& name, const Limits& limits)
      : key_(key), caller_(caller), name_(name), limits_(limits) {
    if (!place.local.empty()) {
      begin({.address = ""}, start_locally(place.local));
    } else {
      for (const std::string& address : place.addresses) begin({.address = address}, start_to(address, place.port));
    }
  }

  // The connection, or why there is none.
  Outcome run(Stream& taken) {
    for (;;) {
      std::vector<pollfd> waits;
      std::vector<Attempt*> open;
      for (Attempt& attempt : attempts_) {
        if (!attempt.socket.is_open()) continue;
        waits.push_back({attempt.socket.get(), static_cast<short>(attempt.calling ? POLLIN : POLLOUT), 0});
        open.push_back(&attempt);
      }
      if (open.empty()) return worst_;
      poll_until(waits, limits_, concat(name_, " to answer (", failures(), ")"));
      for (std::size_t i = 0; i < open.size(); ++i) {
        if (waits[i].revents == 0 || !advance(*open[i])) continue;
        if (keep(*open[i], taken)) return Outcome::kReached;
      }
    }
  }

  [[nodiscard]] std::string failures() const {
    return joined(attempts_, [](const Attempt& each) {
      return concat(each.address, each.address.empty() ? "" : ": ", each.failure.empty() ? "no answer" : each.failure);
    });
  }

 private:
  void begin(Attempt attempt, Descriptor socket) {
    if (!socket.is_open()) {
      if (errno == EAGAIN) worst_ = Outcome::kCrowded;  // of an abstract socket: so many wait to be let in
      attempt.failure = error_text(errno);
    }
    attempt.socket = std::move(socket);
    attempts_.push_back(std::move(attempt));
  }

  // Goes on after an event. Returns true when the door is the right one.
  bool advance(Attempt& attempt) {
    if (!attempt.calling) {
      int error = 0;
      socklen_t size = sizeof(error);
      ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return fail(attempt, error_text(error), Outcome::kFailed);
      if (!is_of_this_user(attempt.socket))
        return fail(attempt, concat(peer_of(attempt.socket), " listens there"), Outcome::kFailed);
      attempt.calling.emplace(attempt.socket.get(), caller_, key_);
      return false;
    }
    switch (attempt.calling->go_on()) {
      case Stage::kPending:
        return false;
      case Stage::kRefused:
        return fail(attempt, attempt.calling->why(), Outcome::kOtherSecret);
      case Stage::kGone:
        return fail(attempt, attempt.calling->why(),
                    attempt.calling->met_a_door() ? Outcome::kCrowded : Outcome::kFailed);
      case Stage::kAdmitted:
        break;
    }
    return true;
  }

  // Takes the connection whose door is the right one.
  bool keep(Attempt& attempt, Stream& taken) {
    if (!attempt.calling->keep()) return fail(attempt, "hung up", Outcome::kCrowded);
    Stage stage = Stage::kPending;
    while ((stage = attempt.calling->encrypt()) == Stage::kPending) {
      pollfd wait{attempt.socket.get(), POLLIN, 0};
      poll_until({&wait, 1}, limits_, concat(name_, " to encrypt"));
    }
    if (stage == Stage::kGone) return fail(attempt, attempt.calling->why(), Outcome::kCrowded);
    taken = Stream(std::move(attempt.socket), attempt.calling->take_tls());
    return true;
  }

  bool fail(Attempt& attempt, const std::string& why, Outcome outcome) {
    attempt.failure = why;
    attempt.socket.close();
    worst_ = std::min(worst_, outcome);
    return false;
  }

  const Key key_;
  const int caller_;
  const std::string& name_;
  const Limits& limits_;
  std::vector<Attempt> attempts_;
  Outcome worst_ = Outcome::kFailed;
};

}  // namespace

Stream dial(const Place& place, const std::string& secret, int caller, const std::string& name, const Limits& limits) {
  const Key key = key_of(secret);
  for (;;) {
    Call call(place, key, caller, name, limits);
    Stream stream;
    const Outcome outcome = call.run(stream);
    if (outcome == Outcome::kReached) return stream;
    const std::string failure = concat("cannot connect to ", name, " (", call.failures(), ")");
    if (outcome == Outcome::kOtherSecret) throw OtherSecret(failure);
    if (outcome == Outcome::kFailed) throw RunError(failure);
    if (limits.deadline.expired()) throw DeadlineExceeded(failure);
    if (limits.stop.stop_requested()) throw GroupAborted(failure);
    pause(kBetweenCalls, limits);
  }
}

}  // namespace tandem::net
