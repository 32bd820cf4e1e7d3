#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tandem/base/testing/eventually.h"
#include "tandem/shm/control_block.h"

namespace tandem::shm {
namespace {

using Outcome = SharedCounter::Outcome;

const std::atomic<bool> kNotHurried{false};

TEST(ArrivalGateTest, WhoComesLastWakesAllThatSleep) {
  ArrivalGate<4> gate;
  std::vector<std::jthread> sleepers;
  std::atomic<int> woken{0};
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    sleepers.emplace_back([&] {
      EXPECT_FALSE(gate.arrive(0, 4));
      EXPECT_EQ(gate.opened().sleep(1, Deadline::infinite(), kNotHurried), Outcome::kReached);
      ++woken;
    });
  }
  ASSERT_TRUE(eventually([&] { return gate.opened().sleepers() == 3; }));
  EXPECT_EQ(woken, 0);
  EXPECT_TRUE(gate.arrive(0, 4));
  sleepers.clear();
  EXPECT_EQ(woken, 3);
}

// Round the window many times, which is not a power of the number of ranks.
TEST(ArrivalGateTest, NobodyPassesBeforeAllHaveCome) {
  constexpr std::uint64_t kRanks = 3, kTickets = 5000;
  ArrivalGate<4> gate;
  std::array<std::atomic<std::uint64_t>, kRanks> come{};
  std::vector<std::jthread> ranks;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      for (std::uint64_t ticket = 0; ticket < kTickets; ++ticket) {
        come[rank] = ticket + 1;
        (void)gate.arrive(ticket, kRanks);
        ASSERT_EQ(gate.opened().sleep(static_cast<std::uint32_t>(ticket + 1), Deadline::infinite(), kNotHurried),
                  Outcome::kReached);
        for (const auto& its : come) ASSERT_GT(its, ticket);
      }
    });
  }
}

TEST(ArrivalGateTest, CloseEndsTheWait) {
  ArrivalGate<4> gate;
  EXPECT_FALSE(gate.arrive(0, 2));
  gate.close();
  EXPECT_EQ(gate.opened().sleep(1, Deadline::infinite(), kNotHurried), Outcome::kClosed);
}

}  // namespace
}  // namespace tandem::shm
