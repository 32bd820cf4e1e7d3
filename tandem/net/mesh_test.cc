#include "tandem/net/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MeshTest : public ::testing::TestWithParam<Access> {};
INSTANTIATE_TEST_SUITE_P(Accesses, MeshTest,
                         ::testing::Values(Access(Reach::kThisHost), Access(Reach::kEverywhere),
                                           Access(Reach::kEverywhere, Traffic::kEncrypted)),
                         [](const auto& access) {
                           if (access.param.reach == Reach::kThisHost) return "ThisHost";
                           return access.param.traffic == Traffic::kOpen ? "Everywhere" : "Encrypted";
                         });

// Each member sends its number to each other one on both channels.
TEST_P(MeshTest, EveryMemberReachesEveryOther) {
  constexpr int kSize = 4;
  std::vector<std::unique_ptr<Mesh>> meshes;
  std::vector<std::string> contacts;
  for (int rank = 0; rank < kSize; ++rank) {
    meshes.push_back(std::make_unique<Mesh>(GetParam(), "", "a test"));
    contacts.push_back(meshes.back()->contact());
  }
  std::vector<std::vector<int>> heard(kSize, std::vector<int>(2 * kSize, -1));
  {
    std::vector<std::jthread> members;
    for (int rank = 0; rank < kSize; ++rank) {
      members.emplace_back([&, rank] {
        const auto at = static_cast<std::size_t>(rank);
        Wire wire(meshes[at]->connect(rank, contacts, within(30s)));
        std::vector<Wire::Transfer> all;
        for (int other = 0; other < kSize; ++other) {
          if (other == rank) continue;
          for (const Channel channel : {Channel::kMessages, Channel::kPayloads}) {
            int& place = heard[at][static_cast<std::size_t>(2 * other) + (channel == Channel::kPayloads ? 1 : 0)];
            all.push_back(wire.send(other, &rank, sizeof(int), channel));
            all.push_back(wire.receive(other, &place, sizeof(int), channel));
          }
        }
        for (const Wire::Transfer& each : all) EXPECT_TRUE(each->wait(Deadline::after(30s)));
      });
    }
  }
  for (int rank = 0; rank < kSize; ++rank) {
    for (int other = 0; other < kSize; ++other) {
      const auto at = static_cast<std::size_t>(rank), from = static_cast<std::size_t>(2 * other);
      EXPECT_EQ(heard[at][from], other == rank ? -1 : other);
      EXPECT_EQ(heard[at][from + 1], other == rank ? -1 : other);
    }
  }
}

TEST_P(MeshTest, MembersThatDoNotComeAreNamed) {
  Mesh mesh(GetParam(), "", "a test"), other(GetParam(), "", "a test");
  EXPECT_THAT(message_of<DeadlineExceeded>([&] {
                (void)mesh.connect(0, {mesh.contact(), other.contact(), other.contact()}, within(20ms));
              }),
              AllOf(HasSubstr("member 0 of 3"), HasSubstr("member(s) 1, 2")));
}

TEST(MeshNetworkTest, ANetworkIsAnInterfaceOrAnAddressOfThisHost) {
  EXPECT_THAT(Mesh(Reach::kThisHost, "lo", "a test").contact(), HasSubstr(" 127.0.0.1"));
  EXPECT_THAT(Mesh(Reach::kThisHost, "127.0.0.1", "a test").contact(), HasSubstr(" 127.0.0.1"));
  EXPECT_THAT(message_of<ConfigError>([] { Mesh mesh(Reach::kThisHost, "no-such-thing", "a test"); }),
              HasSubstr("'no-such-thing' is no interface"));
}

}  // namespace
}  // namespace tandem::net
