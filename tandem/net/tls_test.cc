// What somebody on the way between two members can read and change.
#include "tandem/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/door.h"
#include "tandem/net/testing/connected.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSecret = "a secret of this test";
const std::string kWord = "what the members say to each other";

// Stands between a caller and a door, and passes on what it hears, as `change` leaves it. `change` gets the bytes,
// where they begin in all that went that way, and whether the door sent them.
class Eavesdropper {
 public:
  using Change = std::function<void(std::span<std::byte> bytes, std::size_t begin, bool is_of_door)>;
  Eavesdropper(Place door, Change change)
      : listener_(listen_to("127.0.0.1", 0)),
        place_{.local = {}, .addresses = {"127.0.0.1"}, .port = port_of(listener_)},
        door_(std::move(door)),
        change_(std::move(change)),
        worker_("eavesdropper",
                [this](const std::stop_token& stop) { pass_on({.deadline = Deadline::after(30s), .stop = stop}); }) {}

  [[nodiscard]] const Place& place() const { return place_; }
  // All that was heard; nothing is passed on any more.
  std::string heard() {
    worker_.request_stop();
    worker_.join();
    return heard_;
  }

 private:
  void pass_on(const Limits& limits) {
    try {
      std::array<Descriptor, 2> ends;
      while (!ends[0].is_open()) {
        pollfd wait{listener_.get(), POLLIN, 0};
        poll_until({&wait, 1}, limits, "a caller");
        ends[0] = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      }
      ends[1] = start_to("127.0.0.1", door_.port);
      std::array<std::size_t, 2> passed{};
      for (;;) {
        std::array<pollfd, 2> waits{{{ends[0].get(), POLLIN, 0}, {ends[1].get(), POLLIN, 0}}};
        poll_until(waits, limits, "somebody to speak");
        for (const std::size_t from : {0U, 1U}) {
          std::array<std::byte, 4096> bytes{};
          const ssize_t got = ::recv(ends[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
          if (got < 0) continue;
          if (got == 0) return;
          const auto some = std::span(bytes).first(static_cast<std::size_t>(got));
          heard_.append(reinterpret_cast<const char*>(some.data()), some.size());
          if (change_) change_(some, passed[from], from == 1);
          passed[from] += some.size();
          while (::send(ends[1 - from].get(), some.data(), some.size(), MSG_NOSIGNAL) < 0 && errno == ENOTCONN)
            continue;
        }
      }
    } catch (const RunError&) {
      return;  // stopped
    }
  }

  Descriptor listener_;
  const Place place_, door_;
  const Change change_;
  std::string heard_;
  Worker worker_;  // last
};

struct Ends {
  Stream door, caller;
};

Ends meet(Traffic traffic, const Eavesdropper::Change& change, std::string* heard,
          const std::function<void(Ends&)>& talk) {
  Door door({.access = {Reach::kEverywhere, traffic}, .secret = kSecret, .name = "a test"});
  Eavesdropper between(door.place(), change);
  auto accepted = std::async(std::launch::async, [&] { return door.accept(within(30s)).stream; });
  Ends ends;
  try {
    ends.caller = dial(between.place(), kSecret, 1, "a test", within(2s));
  } catch (...) {
    door.shut();
    accepted.wait();
    throw;
  }
  ends.door = accepted.get();
  talk(ends);
  if (heard != nullptr) *heard = between.heard();
  return ends;
}

// Reads until something is there, or the connection is over.
ssize_t read_word(Stream& from, std::string& word) {
  std::array<std::byte, 256> bytes{};
  ssize_t got = -1;
  while ((got = from.read(bytes)) < 0 && errno == EAGAIN) std::this_thread::yield();
  if (got > 0) word.assign(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(got));
  return got;
}

void say(Stream& to, const std::string& word) { ASSERT_EQ(to.write(std::as_bytes(std::span(word))), std::ssize(word)); }

TEST(TlsTest, WhatIsEncryptedIsNotReadOnItsWayAndTheRestIs) {
  for (const Traffic traffic : {Traffic::kOpen, Traffic::kEncrypted}) {
    std::string heard, at_door, at_caller;
    meet(traffic, {}, &heard, [&](Ends& ends) {
      EXPECT_EQ(ends.door.is_encrypted(), traffic == Traffic::kEncrypted);
      say(ends.caller, kWord);
      (void)read_word(ends.door, at_door);
      say(ends.door, kWord);
      (void)read_word(ends.caller, at_caller);
    });
    EXPECT_EQ(at_door, kWord);
    EXPECT_EQ(at_caller, kWord);
    EXPECT_EQ(heard.find(kWord) != std::string::npos, traffic == Traffic::kOpen);
    EXPECT_THAT(heard, Not(HasSubstr(kSecret)));
  }
}

TEST(TlsTest, WhatIsChangedOnItsWayIsNotTaken) {
  std::atomic<bool> is_changing = false;
  std::string word;
  meet(
      Traffic::kEncrypted,
      [&](std::span<std::byte> bytes, std::size_t /*begin*/, bool /*is_of_door*/) {
        if (is_changing) bytes.back() ^= std::byte{1};
      },
      nullptr,
      [&](Ends& ends) {
        is_changing = true;
        say(ends.caller, kWord);
        EXPECT_EQ(read_word(ends.door, word), -1);
        EXPECT_EQ(errno, EBADMSG);
      });
  EXPECT_EQ(word, "");
}

// Who takes the door's wish to encrypt away is no door to the caller.
TEST(TlsTest, NobodyOnTheWayTalksTheEndsOutOfIt) {
  const auto without_the_wish = [](std::span<std::byte> bytes, std::size_t begin, bool is_of_door) {
    constexpr std::size_t kWish = offsetof(Challenge, is_encrypted);
    if (is_of_door && begin == 0 && bytes.size() > kWish) bytes[kWish] = std::byte{0};
  };
  EXPECT_THROW(meet(Traffic::kEncrypted, without_the_wish, nullptr, [](Ends&) {}), OtherSecret);
}

// One end's key changes with almost each record; the other one follows, in both directions at a time.
TEST(TlsTest, KeysChangeWhileBytesGoBothWays) {
  auto [one, other] = connected_sockets();
  std::array sockets{std::move(one), std::move(other)};
  constexpr std::uint64_t kBytesAKey = 1000;
  std::array ends{Tls(sockets[0].get(), {}, Tls::Role::kCaller, kBytesAKey),
                  Tls(sockets[1].get(), {}, Tls::Role::kDoor, kBytesAKey)};
  for (bool are_done = false; !are_done;) {
    const auto one_is = ends[0].shake_hands(), other_is = ends[1].shake_hands();
    are_done = one_is == Tls::Handshake::kDone && other_is == Tls::Handshake::kDone;
  }
  std::vector<std::byte> sent(4 << 20);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::array<std::vector<std::byte>, 2> got;
  std::array<std::size_t, 2> taken{};
  std::vector<std::byte> some(100'000);
  const Deadline deadline = Deadline::after(60s);
  while ((got[0].size() < sent.size() || got[1].size() < sent.size()) && !deadline.expired()) {
    for (const std::size_t end : {0U, 1U}) {
      const iovec rest{sent.data() + taken[end], sent.size() - taken[end]};
      if (const ssize_t went = rest.iov_len == 0 ? 0 : ends[end].write({&rest, 1}); went > 0)
        taken[end] += static_cast<std::size_t>(went);
      if (const ssize_t came = ends[end].read(some); came > 0)
        got[end].insert(got[end].end(), some.begin(), some.begin() + came);
    }
  }
  EXPECT_EQ(got[0], sent);
  EXPECT_EQ(got[1], sent);
}

// A member that died: who was just told of its end does not wait for it to take more.
TEST(TlsTest, WhoHasHungUpTakesNothing) {
  auto [one, other] = connected(Traffic::kEncrypted);
  other = Stream();
  std::string word;
  EXPECT_EQ(read_word(one, word), 0);
  const Deadline deadline = Deadline::after(30s);
  ssize_t sent = 1;
  while (sent > 0 && !deadline.expired()) sent = one.write(std::as_bytes(std::span(kWord)));
  EXPECT_EQ(sent, -1);
  EXPECT_THAT(errno, ::testing::AnyOf(EPIPE, ECONNRESET));
}

// The codes of the greeting do not help who passes them on: the key is made of the secret.
TEST(TlsTest, AnotherKeyEndsTheHandshake) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
  const Descriptor one(pair[0]), other(pair[1]);
  Tls caller(one.get(), Sha256::Digest{std::byte{1}}, Tls::Role::kCaller);
  Tls door(other.get(), Sha256::Digest{std::byte{2}}, Tls::Role::kDoor);
  EXPECT_EQ(caller.shake_hands(), Tls::Handshake::kPending);
  EXPECT_EQ(door.shake_hands(), Tls::Handshake::kFailed);
  EXPECT_EQ(caller.shake_hands(), Tls::Handshake::kFailed);
}

}  // namespace
}  // namespace tandem::net
