// net/greeting.h: what the two ends of a new connection say first: each proves that it knows the door's secret, without
// showing it. A challenge and a response (RFC 2104 codes over both ends' random numbers), in both directions:
//
//   1. door -> caller: a random number.
//   2. caller -> door: the caller's number in the run, a random number, and a code over all of these.
//   3. door -> caller: admitted, and a code over the same; or refused.
//   4. caller -> door: taken, on the one of several connections that the caller keeps.
//
// The door says in 1 whether it wants the rest encrypted (net/tls.h); the codes cover that, too.
//
// Neither end waits for the other: each is told when something came, and goes on. An empty secret proves nothing; it is
// for doors that only processes of the same user can reach.
//
// Threads: single-thread. Errors: none is thrown; why() says why an end refused.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tandem/base/digest/sha256.h"
#include "tandem/net/sockets.h"
#include "tandem/net/tls.h"

namespace tandem::net {

/// The key that both ends make of a door's secret.
using Key = Sha256::Digest;
[[nodiscard]] Key key_of(const std::string& secret);

enum class Stage {
  kPending,   // the other end has to speak
  kAdmitted,  // both have proved what they know; at the door: and the caller keeps this connection
  kRefused,   // the other end does not know the secret
  kGone,      // it hung up, or speaks another language
};

/// Gathers the bytes of one plain struct from a socket, as they come.
template <typename Words>
class Incoming {
 public:
  [[nodiscard]] std::span<std::byte> rest() { return std::as_writable_bytes(std::span(&words_, 1)).subspan(got_); }
  void got(std::size_t bytes) { got_ += bytes; }
  [[nodiscard]] const Words& words() const { return words_; }

 private:
  Words words_{};
  std::size_t got_ = 0;
};

struct Challenge {
  std::uint64_t mark = 0;
  std::uint64_t is_encrypted = 0;
  std::array<std::byte, 32> random{};
};
struct Response {
  std::uint64_t mark = 0;
  std::int32_t caller = 0, padding = 0;
  std::array<std::byte, 32> random{};
  Sha256::Digest code{};
};
struct Verdict {
  std::uint64_t admitted = 0;
  Sha256::Digest code{};
};

/// The door's side of one connection. Both sides use a socket that does not block, and leave it to the caller.
class AtTheDoor {
 public:
  /// Sends the challenge.
  AtTheDoor(int socket, const Key& key, Traffic traffic);
  /// Reads what has come, and answers it.
  Stage go_on();
  /// Whether the caller has proved that it knows the secret.
  [[nodiscard]] bool knows_the_secret() const { return is_judged_; }
  /// Who calls; once admitted.
  [[nodiscard]] int caller() const { return response_.words().caller; }
  /// What encrypts the connection; null where nothing does. Once admitted.
  [[nodiscard]] std::unique_ptr<Tls> take_tls() { return std::move(tls_); }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  Stage judge();
  Stage encrypt();

  const int socket_;
  const Key key_;
  Challenge challenge_;
  Incoming<Response> response_;
  Incoming<char> taken_;
  bool is_judged_ = false;
  std::unique_ptr<Tls> tls_;
  std::string why_;
};

/// The caller's side.
class Calling {
 public:
  Calling(int socket, int caller, const Key& key);
  /// Reads what has come, and answers it. Once kAdmitted, keep() takes the connection, and encrypt() encrypts it.
  Stage go_on();
  /// Whether a door of this version has spoken.
  [[nodiscard]] bool met_a_door() const { return has_responded_; }
  /// Says to the door that this connection is the one. Returns false when the door is gone.
  [[nodiscard]] bool keep();
  /// After keep(): goes on with what encrypts the connection, if anything does. Once kAdmitted, take_tls().
  Stage encrypt();
  [[nodiscard]] std::unique_ptr<Tls> take_tls() { return std::move(tls_); }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  const int socket_;
  const Key key_;
  Response response_;
  Incoming<Challenge> challenge_;
  Incoming<Verdict> verdict_;
  bool has_responded_ = false;
  std::unique_ptr<Tls> tls_;
  std::string why_;
};

}  // namespace tandem::net
