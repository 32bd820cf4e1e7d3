#include "tandem/net/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/net/testing/connected.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(30s); }

// The wires of two members, and the second one's sockets for those who play it by hand.
struct Pair {
  explicit Pair(Traffic traffic) {
    auto [m0, m1] = connected(traffic);
    auto [p0, p1] = connected(traffic);
    std::vector<Wire::Ends> of_first(2), of_second(2);
    of_first[1] = {std::move(m0), std::move(p0)};
    of_second[0] = {std::move(m1), std::move(p1)};
    first = std::make_unique<Wire>(std::move(of_first));
    second = std::make_unique<Wire>(std::move(of_second));
  }
  std::unique_ptr<Wire> first, second;
};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class WireTest : public ::testing::TestWithParam<Traffic> {};
INSTANTIATE_TEST_SUITE_P(Traffics, WireTest, ::testing::Values(Traffic::kOpen, Traffic::kEncrypted),
                         [](const auto& traffic) { return traffic.param == Traffic::kOpen ? "Open" : "Encrypted"; });

TEST_P(WireTest, BytesArriveInTheOrderOfTheirSends) {
  Pair pair(GetParam());
  const std::vector<int> sent = numbers(1000);
  std::vector<int> got(1000);
  std::vector<Wire::Transfer> all;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    all.push_back(pair.first->send(1, &sent[i], sizeof(int), Channel::kMessages));
    all.push_back(pair.second->receive(0, &got[i], sizeof(int), Channel::kMessages));
  }
  for (const Wire::Transfer& each : all) EXPECT_TRUE(each->wait(soon()));
  EXPECT_EQ(got, sent);
}

// More than the sockets' buffers hold, in both directions at a time, before anything is received.
TEST_P(WireTest, LargePayloadsCrossEachOther) {
  constexpr std::size_t kBytes = 32 << 20;
  Pair pair(GetParam());
  std::vector<std::vector<unsigned char>> sent{std::vector<unsigned char>(kBytes, 1),
                                               std::vector<unsigned char>(kBytes, 2)},
      got(2, std::vector<unsigned char>(kBytes));
  const auto a = pair.first->send(1, sent[0].data(), kBytes, Channel::kPayloads);
  const auto b = pair.second->send(0, sent[1].data(), kBytes, Channel::kPayloads);
  const auto c = pair.second->receive(0, got[0].data(), kBytes, Channel::kPayloads);
  const auto d = pair.first->receive(1, got[1].data(), kBytes, Channel::kPayloads);
  for (const auto& each : {a, b, c, d}) EXPECT_TRUE(each->wait(soon()));
  EXPECT_EQ(got[0], sent[0]);
  EXPECT_EQ(got[1], sent[1]);
}

TEST_P(WireTest, APayloadThatNobodyWaitsForHoldsUpNoMessage) {
  constexpr std::size_t kBytes = 32 << 20;
  const std::vector<char> payload(kBytes, 'p');  // lives longer than the wire that sends it
  Pair pair(GetParam());
  const auto stuck = pair.first->send(1, payload.data(), kBytes, Channel::kPayloads);
  const char word = 'm';
  char heard = 0;
  const auto sent = pair.first->send(1, &word, 1, Channel::kMessages);
  const auto got = pair.second->receive(0, &heard, 1, Channel::kMessages);
  EXPECT_TRUE(got->wait(soon()));
  EXPECT_EQ(heard, 'm');
  EXPECT_THROW((void)stuck->wait(Deadline::after(1ms)), DeadlineExceeded);
  stuck->abort();
  EXPECT_FALSE(stuck->wait(soon()));
}

TEST_P(WireTest, AMessageMayBeShorterThanItsRoomAndAPayloadNot) {
  Pair pair(GetParam());
  const std::array<char, 4> word{'w', 'o', 'r', 'd'};
  std::array<char, 100> room{};
  const auto message = pair.second->receive(0, room.data(), room.size(), Channel::kMessages);
  const auto payload = pair.second->receive(0, room.data(), room.size(), Channel::kPayloads);
  const auto one = pair.first->send(1, word.data(), word.size(), Channel::kMessages);
  const auto other = pair.first->send(1, word.data(), word.size(), Channel::kPayloads);
  EXPECT_TRUE(message->wait(soon()));
  EXPECT_EQ(std::string(room.data(), 4), "word");
  EXPECT_THAT(message_of<RunError>([&] { (void)payload->wait(soon()); }),
              HasSubstr("sent 4 bytes, and 100 were to come"));
}

// What was sent before the end is received before the end is told.
TEST_P(WireTest, TheLastMessageComesBeforeTheEnd) {
  Pair pair(GetParam());
  const char word = 'w';
  char heard = 0, nothing = 0;
  ASSERT_TRUE(pair.first->send(1, &word, 1, Channel::kMessages)->wait(soon()));
  pair.first.reset();
  // The second member notices, by a send, that the first is gone.
  for (int i = 0; i < 1000; ++i) {
    try {
      (void)pair.second->send(0, &word, 1, Channel::kMessages);
    } catch (const RunError&) {
      break;
    }
    std::this_thread::yield();
  }
  const auto last = pair.second->receive(0, &heard, 1, Channel::kMessages);
  EXPECT_TRUE(last->wait(soon()));
  EXPECT_EQ(heard, 'w');
  EXPECT_THROW((void)pair.second->receive(0, &nothing, 1, Channel::kMessages)->wait(soon()), RunError);
}

TEST_P(WireTest, TheEndOfThePeerEndsAllWaitsForIt) {
  Pair pair(GetParam());
  char nothing = 0;
  const auto message = pair.second->receive(0, &nothing, 1, Channel::kMessages);
  const auto payload = pair.second->receive(0, &nothing, 1, Channel::kPayloads);
  pair.first.reset();
  EXPECT_THAT(message_of<RunError>([&] { (void)message->wait(soon()); }), HasSubstr("hung up"));
  EXPECT_THROW((void)payload->wait(soon()), RunError);
  EXPECT_THROW((void)pair.second->receive(0, &nothing, 1, Channel::kMessages), RunError);
}

}  // namespace
}  // namespace tandem::net
