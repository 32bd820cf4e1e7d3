#include "tandem/net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A connection, to which the test says what it likes.
struct TalkedTo {
  TalkedTo() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    socket = Descriptor(ends[0]);
    connection.emplace(Stream(Descriptor(ends[1])), 1, "member 1");
  }
  Descriptor socket;
  std::optional<Connection> connection;
};

// Room for what the header promises would be a terabyte.
TEST(ConnectionTest, AHeaderAloneTakesLittleMemory) {
  TalkedTo it;
  std::vector<std::byte> header = bytes_of({.kind = 1});
  const std::uint64_t promised = std::uint64_t{1} << 40;
  std::memcpy(header.data(), &promised, sizeof(promised));
  ASSERT_EQ(::send(it.socket.get(), header.data(), header.size(), 0), std::ssize(header));
  ::shutdown(it.socket.get(), SHUT_WR);
  EXPECT_THAT(message_of<PeerLost>([&] { (void)it.connection->receive(within(60s)); }), HasSubstr("hung up"));
}

TEST(ConnectionTest, WhatIsNoMessageIsNamed) {
  TalkedTo it;
  ASSERT_EQ(::send(it.socket.get(), std::string(24, 'x').data(), 24, 0), 24);
  EXPECT_THAT(message_of<PeerLost>([&] { (void)it.connection->receive(within(60s)); }),
              HasSubstr("member 1 sent something that is no message"));
}

TEST(ConnectionTest, AFailureWithoutItsTextIsAFailure) {
  EXPECT_THAT(message_of<RunError>([] { throw_failure({.kind = kFailure, .bytes = std::vector<std::byte>(3)}); }),
              HasSubstr("its message of 3 bytes does not say why"));
}

}  // namespace
}  // namespace tandem::net
