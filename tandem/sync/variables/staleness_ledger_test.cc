#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/sync/variables/asynchronous.h"

namespace tandem::sync {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A whole step of a replica: what it offers is judged, then it reads the variables.
StalenessLedger::Entry step(StalenessLedger& ledger, int replica) {
  const StalenessLedger::Entry entry = ledger.offer(replica);
  ledger.pulled(replica);
  return entry;
}

TEST(StalenessLedgerTest, StalenessCountsTheUpdatesOfOthersSinceThePull) {
  StalenessLedger ledger(3, {});
  EXPECT_EQ(step(ledger, 0).staleness, 0);
  EXPECT_EQ(step(ledger, 0).staleness, 0) << "its own updates make nothing stale";
  EXPECT_EQ(step(ledger, 1).staleness, 2);
  EXPECT_EQ(step(ledger, 1).staleness, 0);
  EXPECT_EQ(step(ledger, 0).staleness, 2);
  EXPECT_EQ(step(ledger, 2).staleness, 5);
  EXPECT_EQ(ledger.version(), 6);
  EXPECT_EQ(ledger.totals()[0].applied, 3);
}

TEST(StalenessLedgerTest, WhatIsDroppedDoesNotCountAsAnUpdate) {
  StalenessLedger ledger(2, {.drop_staler = 1});
  EXPECT_TRUE(step(ledger, 0).is_applied);
  EXPECT_TRUE(step(ledger, 0).is_applied);
  const StalenessLedger::Entry late = step(ledger, 1);
  EXPECT_FALSE(late.is_applied);
  EXPECT_EQ(late.staleness, 2);
  EXPECT_EQ(step(ledger, 0).staleness, 0);
  const StalenessLedger::Entry again = step(ledger, 1);
  EXPECT_TRUE(again.is_applied) << "one update stale is allowed";
  EXPECT_EQ(again.staleness, 1);
  const std::vector<GradientTotals> totals = ledger.totals();
  EXPECT_EQ(totals[0].offered, 3);
  EXPECT_EQ(totals[0].applied, 3);
  EXPECT_EQ(totals[0].dropped, 0);
  EXPECT_EQ(totals[1].offered, 2);
  EXPECT_EQ(totals[1].applied, 1);
  EXPECT_EQ(totals[1].dropped, 1);
}

TEST(StalenessLedgerTest, WhoIsTooFarAheadWaitsForTheSlowest) {
  StalenessLedger ledger(3, {.wait_for_slower = 1});
  (void)step(ledger, 0);
  EXPECT_TRUE(ledger.may_go_on(0));
  (void)step(ledger, 0);
  EXPECT_THAT(ledger.behind(0), ElementsAre(1, 2));
  (void)step(ledger, 1);
  EXPECT_THAT(ledger.behind(0), ElementsAre(2));
  EXPECT_TRUE(ledger.may_go_on(1));
  ledger.pass(2);
  EXPECT_THAT(ledger.behind(0), IsEmpty()) << "a step without rows counts";
}

TEST(StalenessLedgerTest, NobodyWaitsForWhoHasLeft) {
  StalenessLedger ledger(2, {.wait_for_slower = 0});
  (void)step(ledger, 0);
  EXPECT_FALSE(ledger.may_go_on(0));
  ledger.leave(1);
  EXPECT_TRUE(ledger.may_go_on(0));
  EXPECT_TRUE(ledger.has_left(1));
  EXPECT_THROW((void)ledger.offer(1), InvariantError);
}

TEST(StalenessLedgerTest, WhoRejoinsIsLevelWithTheOthersAndUpToDate) {
  StalenessLedger ledger(2, {.wait_for_slower = 0});
  (void)step(ledger, 0);
  ledger.leave(0);
  ledger.leave(1);
  ledger.rejoin();
  EXPECT_TRUE(ledger.may_go_on(0));
  EXPECT_EQ(step(ledger, 1).staleness, 0);
  EXPECT_EQ(ledger.totals()[0].applied, 1) << "counts go on";
  EXPECT_EQ(ledger.totals()[1].applied, 1);
  ledger.reset();
  EXPECT_EQ(ledger.totals()[0].applied, 0);
  EXPECT_EQ(ledger.version(), 0);
}

// With s steps of advance and N replicas no order gives more than (N - 1)(2s + 1).
TEST(StalenessLedgerTest, WaitingBoundsTheStalenessOfGradients) {
  constexpr int kReplicas = 3;
  for (const std::int64_t ahead : {0, 1, 3}) {
    std::int64_t worst = 0;
    for (unsigned seed = 1; seed <= 300; ++seed) {
      StalenessLedger ledger(kReplicas, {.wait_for_slower = ahead});
      std::vector<char> waits(kReplicas, 0);  // has offered, and not read yet
      unsigned state = seed;
      for (int i = 0; i < 400; ++i) {
        state = state * 1664525U + 1013904223U;
        const auto replica = static_cast<int>((state >> 16U) % kReplicas);
        // Long runs of one replica are the worst there are.
        for (unsigned run = 0; run <= (state >> 24U) % 8; ++run) {
          char& is_waiting = waits[static_cast<std::size_t>(replica)];
          if (is_waiting == 0) worst = std::max(worst, ledger.offer(replica).staleness);
          is_waiting = ledger.may_go_on(replica) ? 0 : 1;
          if (is_waiting == 0) ledger.pulled(replica);
        }
      }
    }
    EXPECT_LE(worst, (kReplicas - 1) * (2 * ahead + 1));
    EXPECT_GT(worst, ahead) << "the orders should come near it";
  }
}

}  // namespace
}  // namespace tandem::sync
