#include "tandem/net/message_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/net/contact.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Message ask(MessageClient& client, std::uint32_t kind, const std::vector<std::string>& parts, const Limits& limits) {
  std::vector<Bytes> bytes;
  for (const std::string& part : parts) bytes.push_back(std::as_bytes(std::span(part)));
  return client.call(kind, bytes, limits);
}

// Who was lost, in order; and waits for the first.
struct Losses {
  void add(int member, const std::string& how) {
    {
      const MutexLock lock(mutex);
      all.emplace_back(member, how);
    }
    changed.notify_all();
  }
  std::pair<int, std::string> first() {
    const MutexLock lock(mutex);
    EXPECT_TRUE(changed.wait(mutex, Deadline::after(30s), [this]() TANDEM_REQUIRES(mutex) { return !all.empty(); }));
    return all.empty() ? std::pair{-1, std::string()} : all.front();
  }
  Mutex mutex;
  CondVar changed;
  std::vector<std::pair<int, std::string>> all TANDEM_GUARDED_BY(mutex);
};

ServerAddress address_of(const MessageServer& server) {
  return {.contact = server.contact(), .member = 0, .name = "replica 0 (the server)"};
}

// Says who asked, for what, and with how many bytes.
Message echo(int member, const Message& request, const Limits&) {
  return {.kind = request.kind + 1,
          .patience = -1,
          .bytes = bytes_of(std::to_string(member) + ":" + text_of(request.bytes))};
}

void ignore(int, const std::string&) {}

class MessageServerTest : public ::testing::TestWithParam<Traffic> {
 protected:
  static Access access() { return {Reach::kEverywhere, GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Traffics, MessageServerTest, ::testing::Values(Traffic::kOpen, Traffic::kEncrypted),
                         [](const auto& traffic) { return traffic.param == Traffic::kOpen ? "Open" : "Encrypted"; });

TEST_P(MessageServerTest, AnswersEachMemberWithWhatItAsked) {
  const MessageServer server(access(), echo, ignore);
  std::vector<std::jthread> members;
  for (int member = 1; member <= 4; ++member) {
    members.emplace_back([&server, member] {
      MessageClient client(address_of(server), member, within(30s));
      for (std::uint32_t i = 0; i < 200; ++i) {
        const std::string text = std::to_string(i * static_cast<std::uint32_t>(member));
        const Message answer = ask(client, i, {text, "", "!"}, within(30s));
        ASSERT_EQ(answer.kind, i + 1);
        ASSERT_EQ(text_of(answer.bytes), std::to_string(member) + ":" + text + "!");
      }
    });
  }
}

TEST_P(MessageServerTest, AMessageLargerThanTheSystemsBuffersArrivesWhole) {
  const MessageServer server(access(), echo, ignore);
  MessageClient client(address_of(server), 7, within(30s));
  std::string large;
  large.resize(20'000'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>('a' + i * i % 23);
  EXPECT_EQ(text_of(ask(client, 1, {large, large}, within(60s)).bytes), "7:" + large + large);
}

TEST_P(MessageServerTest, WhatTheServerThrowsIsThrownByTheCallAndTheNextOneWorks) {
  const MessageServer server(
      access(),
      [](int, const Message& request, const Limits&) -> Message {
        if (request.kind == 1) throw PeerLost(5, "replica 5 died");
        if (request.kind == 2) throw DeadlineExceeded("too late for 3");
        if (request.kind == 3) throw GroupAborted("ended");
        if (request.kind == 4) throw DataError("spoilt");
        return {.kind = 9, .patience = -1, .bytes = {}};
      },
      ignore);
  MessageClient client(address_of(server), 1, within(30s));
  try {
    (void)ask(client, 1, {}, within(30s));
    ADD_FAILURE() << "no exception";
  } catch (const PeerLost& error) {
    EXPECT_EQ(error.peer(), 5);
    EXPECT_STREQ(error.what(), "replica 5 died");
  }
  EXPECT_THROW((void)ask(client, 2, {}, within(30s)), DeadlineExceeded);
  EXPECT_THROW((void)ask(client, 3, {}, within(30s)), GroupAborted);
  EXPECT_THROW((void)ask(client, 4, {}, within(30s)), RunError);
  EXPECT_EQ(ask(client, 5, {}, within(30s)).kind, 9U);
}

TEST_P(MessageServerTest, TheServerIsToldHowLongTheMemberWaits) {
  std::optional<Clock::duration> left;
  bool is_infinite = false;
  const MessageServer server(
      access(),
      [&](int, const Message& request, const Limits& limits) -> Message {
        if (request.kind == 1) left = limits.deadline.remaining();
        if (request.kind == 2) is_infinite = limits.deadline.is_infinite();
        return {};
      },
      ignore);
  MessageClient client(address_of(server), 1, within(30s));
  (void)ask(client, 1, {}, within(50s));
  (void)ask(client, 2, {}, {});
  EXPECT_LE(*left, 50s);
  EXPECT_GT(*left, 1s);
  EXPECT_TRUE(is_infinite);
}

// While it is being served: the request's stop token ends the server's wait.
TEST_P(MessageServerTest, AMemberThatDiesIsNoticedWhileItsRequestIsServed) {
  Losses losses;
  Mutex mutex;
  CondVar never;
  bool is_serving = false, was_stopped = false;
  CondVar serving;
  const MessageServer server(
      access(),
      [&](int, const Message&, const Limits& limits) -> Message {
        const MutexLock lock(mutex);
        is_serving = true;
        serving.notify_all();
        never.wait(mutex, limits.stop, [] { return false; });
        was_stopped = limits.stop.stop_requested();
        serving.notify_all();
        throw GroupAborted("stopped");
      },
      [&](int member, const std::string& how) { losses.add(member, how); });
  MessageClient client(address_of(server), 3, within(30s));
  std::jthread asks([&] { EXPECT_THROW((void)ask(client, 1, {}, {}), PeerLost); });
  {
    const MutexLock lock(mutex);
    ASSERT_TRUE(serving.wait(mutex, Deadline::after(30s), [&] { return is_serving; }));
  }
  client.hang_up();
  const auto [member, how] = losses.first();
  EXPECT_EQ(member, 3);
  EXPECT_THAT(how, HasSubstr("member 3 "));
  const MutexLock lock(mutex);
  EXPECT_TRUE(serving.wait(mutex, Deadline::after(30s), [&] { return was_stopped; }));
}

TEST_P(MessageServerTest, AServerThatIsGoneIsNamed) {
  auto server = std::make_unique<MessageServer>(access(), echo, ignore);
  MessageClient client(address_of(*server), 1, within(30s));
  (void)ask(client, 1, {}, within(30s));
  server.reset();
  try {
    (void)ask(client, 1, {}, within(30s));
    ADD_FAILURE() << "no exception";
  } catch (const PeerLost& error) {
    EXPECT_EQ(error.peer(), 0);
    EXPECT_THAT(error.what(), HasSubstr("replica 0 (the server)"));
  }
}

TEST_P(MessageServerTest, ADoorThatIsShutIsSeenAtOnceAndWhoIsInStays) {
  MessageServer server(access(), echo, ignore);
  MessageClient in(address_of(server), 1, within(30s));
  server.shut_door();
  try {
    const MessageClient late(address_of(server), 2, within(30s));
    ADD_FAILURE() << "it was let in";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot connect to a member of the run"));
  }
  EXPECT_NO_THROW((void)ask(in, 1, {}, within(30s)));
}

TEST_P(MessageServerTest, ARequestThatTheEndOfTheServerCutsShortIsThatEnd) {
  std::promise<void> is_served;
  auto server = std::make_unique<MessageServer>(
      access(),
      [&](int, const Message&, const Limits& limits) -> Message {
        is_served.set_value();
        Mutex mutex;
        CondVar never;
        const MutexLock lock(mutex);
        (void)never.wait(mutex, limits.stop, Deadline::after(30s), [] { return false; });
        throw GroupAborted("it waited, and was stopped");
      },
      ignore);
  MessageClient client(address_of(*server), 1, within(30s));
  const std::jthread end([&] {
    is_served.get_future().wait();
    server.reset();
  });
  EXPECT_THROW((void)ask(client, 1, {}, within(30s)), PeerLost);
}

// Also when it has gone before the member asks.
TEST_P(MessageServerTest, AFailureThatIsToldToAllComesBeforeTheEndOfTheServer) {
  auto server = std::make_unique<MessageServer>(access(), echo, ignore);
  MessageClient first(address_of(*server), 1, within(30s)), second(address_of(*server), 2, within(30s));
  (void)ask(first, 1, {}, within(30s));
  (void)ask(second, 1, {}, within(30s));
  server->tell_all(PeerLost(7, "replica 7 died"));
  const auto lost_of = [](MessageClient& client) {
    try {
      (void)ask(client, 1, {}, within(30s));
    } catch (const PeerLost& error) {
      return error.peer();
    }
    return -1;
  };
  EXPECT_EQ(lost_of(first), 7);
  server.reset();
  EXPECT_EQ(lost_of(second), 7);
}

TEST_P(MessageServerTest, AServerThatDoesNotAnswerEndsTheCallAtItsDeadlineAndTheClient) {
  Losses losses;
  const MessageServer server(
      access(),
      [](int, const Message&, const Limits& limits) -> Message {
        Mutex mutex;
        CondVar never;
        const MutexLock lock(mutex);
        never.wait(mutex, limits.stop, [] { return false; });
        return {};
      },
      [&](int member, const std::string& how) { losses.add(member, how); });
  MessageClient client(address_of(server), 1, within(30s));
  try {
    (void)ask(client, 1, {}, within(10ms));
    ADD_FAILURE() << "no exception";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("replica 0 (the server)"));
  }
  EXPECT_THROW((void)ask(client, 1, {}, within(30s)), PeerLost);
  EXPECT_EQ(losses.first().first, 1);
}

TEST_P(MessageServerTest, AStopEndsACall) {
  const MessageServer server(
      access(),
      [](int, const Message&, const Limits& limits) -> Message {
        Mutex mutex;
        CondVar never;
        const MutexLock lock(mutex);
        never.wait(mutex, limits.stop, [] { return false; });
        return {};
      },
      ignore);
  MessageClient client(address_of(server), 1, within(30s));
  std::stop_source stop;
  std::jthread asks([&] {
    EXPECT_THROW((void)ask(client, 1, {}, {.deadline = Deadline::infinite(), .stop = stop.get_token()}), GroupAborted);
  });
  stop.request_stop();
}

// Several addresses of this host answer; the connections that are not taken are nobody's loss.
TEST_P(MessageServerTest, AMemberThatDiedKeepsNobodyFromBeingTold) {
  Losses losses;
  MessageServer server(access(), echo, [&](int member, const std::string& how) { losses.add(member, how); });
  auto first = std::make_unique<MessageClient>(address_of(server), 1, within(30s));
  MessageClient second(address_of(server), 2, within(30s));
  (void)first->call(7, {}, within(30s));
  (void)second.call(7, {}, within(30s));
  first.reset();
  (void)losses.first();
  for (int i = 0; i < 3; ++i) server.tell_all(RunError("the run has failed"));
  EXPECT_THAT(message_of<RunError>([&] { (void)second.call(7, {}, within(30s)); }), HasSubstr("the run has failed"));
}

TEST(ContactTest, OneOfSeveralAddressesIsTaken) {
  Losses losses;
  const MessageServer server(Reach::kEverywhere, echo,
                             [&](int member, const std::string& how) { losses.add(member, how); });
  {
    MessageClient client({.contact = server.contact() + " 127.0.0.2 127.0.0.3", .member = 0, .name = "replica 0"}, 4,
                         within(30s));
    for (int i = 0; i < 3; ++i) (void)ask(client, 1, {}, within(30s));
    MessageClient later(address_of(server), 5, within(30s));
    EXPECT_EQ(ask(later, 1, {}, within(30s)).kind, 2U);
    const MutexLock lock(losses.mutex);
    EXPECT_TRUE(losses.all.empty()) << losses.all.front().second;
  }
  EXPECT_THAT(losses.first().first, ::testing::AnyOf(4, 5));
}

TEST(ContactTest, WhoDoesNotKnowTheSecretIsNotLetIn) {
  const MessageServer server(Reach::kEverywhere, echo, ignore);
  std::string contact = server.contact();
  contact[0] = contact[0] == 'a' ? 'b' : 'a';
  EXPECT_THROW(MessageClient({.contact = contact, .member = 0, .name = "replica 0"}, 1, within(30s)), RunError);
  MessageClient client(address_of(server), 1, within(30s));
  EXPECT_EQ(ask(client, 1, {}, within(30s)).kind, 2U);
}

// Somebody else's answer is not taken for the server's.
TEST(ContactTest, WhoAnswersWithAnotherSecretIsNotTakenForTheListener) {
  const MessageServer server(Reach::kEverywhere, echo, ignore);
  std::string contact = server.contact();
  contact[31] = contact[31] == 'a' ? 'b' : 'a';
  try {
    (void)dial(contact, 1, within(30s));
    ADD_FAILURE() << "no exception";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("127.0.0.1"), HasSubstr("another secret")));
  }
}

TEST(ContactTest, AListenerThatIsGoneIsAnErrorThatListsTheAddresses) {
  auto listener = std::make_unique<Listener>(Reach::kEverywhere, "a test");
  const std::string contact = listener->contact();
  listener.reset();
  try {
    (void)dial(contact, 1, within(30s));
    ADD_FAILURE() << "no exception";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1: "));
  }
}

TEST_P(MessageServerTest, WhoComesBackTakesTheFormerPlaceAndTheLossIsToldBefore) {
  Losses losses;
  MessageServer server(
      access(),
      [&](int member, const Message&, const Limits&) {
        EXPECT_EQ(losses.first().first, member) << "served before the former one was lost";
        return Message{.kind = 2, .patience = -1, .bytes = bytes_of("again")};
      },
      [&](int member, const std::string& how) { losses.add(member, how); });
  MessageClient former(address_of(server), 1, within(30s));
  MessageClient next(address_of(server), 1, within(30s));
  EXPECT_EQ(text_of(ask(next, 1, {}, within(30s)).bytes), "again");
  EXPECT_THROW((void)ask(former, 1, {}, within(30s)), PeerLost);
  EXPECT_EQ(text_of(ask(next, 1, {}, within(30s)).bytes), "again") << "the end of the former one is not its own";
}

}  // namespace
}  // namespace tandem::net
