#include "tandem/sync/variables/token_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TokenProtocol started(int workers, const SyncReplicasOptions& options) {
  TokenProtocol protocol(workers, options);
  for (int worker = 0; worker < workers; ++worker) protocol.join(worker);
  return protocol;
}

// Takes a token, spends it.
TokenProtocol::Judgement compute(TokenProtocol& protocol, int worker) {
  EXPECT_TRUE(protocol.take_token(worker)) << "worker " << worker << " has to wait";
  return protocol.offer(worker);
}

std::vector<GradientId> make_step(TokenProtocol& protocol) {
  std::vector<GradientId> taken = protocol.take();
  protocol.advance();
  return taken;
}

TEST(TokenProtocolTest, TheFirstToComeMakeTheStepAndTheLateOneIsTold) {
  TokenProtocol protocol = started(3, {.replicas_to_aggregate = 2});
  for (const int worker : {0, 1, 2}) EXPECT_EQ(protocol.take_token(worker), 0);
  EXPECT_TRUE(protocol.offer(2).is_accepted);
  EXPECT_FALSE(protocol.may_take());
  EXPECT_TRUE(protocol.offer(0).is_accepted);
  EXPECT_THAT(make_step(protocol), ElementsAre(GradientId{2, 0}, GradientId{0, 0}));
  for (const int worker : {0, 2}) (void)compute(protocol, worker);
  (void)make_step(protocol);
  const TokenProtocol::Judgement late = protocol.offer(1);
  EXPECT_FALSE(late.is_accepted);
  EXPECT_EQ(late.staleness, 2);
  EXPECT_EQ(protocol.take_token(1), 2) << "it goes on with the newest step";
}

// TensorFlow's fast workers take the token of the slow one, compute a second gradient of the same step, and come late
// with it.
TEST(TokenProtocolTest, NobodySpendsTheTokenOfASlowWorker) {
  TokenProtocol protocol = started(3, {.replicas_to_aggregate = 2});
  (void)protocol.take_token(2);  // and computes for ever
  for (int step = 0; step < 50; ++step) {
    EXPECT_TRUE(compute(protocol, 0).is_accepted);
    EXPECT_EQ(protocol.take_token(0), std::nullopt);
    EXPECT_TRUE(compute(protocol, 1).is_accepted);
    (void)make_step(protocol);
  }
  EXPECT_EQ(protocol.totals(0).dropped + protocol.totals(1).dropped, 0);
}

TEST(TokenProtocolTest, FewerWorkersGiveSeveralEachAndTheFasterOneMore) {
  TokenProtocol protocol = started(2, {.replicas_to_aggregate = 5});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(compute(protocol, 0).is_accepted);
  EXPECT_EQ(protocol.take_token(0), std::nullopt) << "the last token is worker 1's own";
  (void)protocol.take_token(1);
  EXPECT_EQ(protocol.take_token(0), std::nullopt) << "also while it is being spent";
  EXPECT_TRUE(protocol.offer(1).is_accepted);
  EXPECT_THAT(make_step(protocol),
              ElementsAre(GradientId{0, 0}, GradientId{0, 1}, GradientId{0, 2}, GradientId{0, 3}, GradientId{1, 0}));
}

TEST(TokenProtocolTest, TheQuorumFollowsWhoLeavesAndWhoComes) {
  TokenProtocol protocol = started(3, {.replicas_to_aggregate = 3});
  (void)compute(protocol, 0);
  (void)compute(protocol, 1);
  protocol.die(2);
  EXPECT_EQ(protocol.quorum(), 2);
  (void)make_step(protocol);
  protocol.join(2);
  EXPECT_EQ(protocol.quorum(), 3);
  EXPECT_EQ(protocol.take_token(2), 1);

  TokenProtocol several = started(2, {.replicas_to_aggregate = 5});
  several.leave(0);
  EXPECT_EQ(several.quorum(), 5) << "the other gives them all";
}

TEST(TokenProtocolTest, TheTokenOfADeadWorkerIsAnothers) {
  TokenProtocol protocol = started(2, {.replicas_to_aggregate = 4});
  (void)protocol.take_token(0);
  (void)compute(protocol, 1);
  (void)compute(protocol, 1);
  (void)protocol.take_token(1);
  protocol.die(1);
  (void)protocol.offer(0);
  EXPECT_FALSE(protocol.may_take());
  EXPECT_TRUE(compute(protocol, 0).is_accepted);
  EXPECT_TRUE(protocol.may_take());
}

TEST(TokenProtocolTest, WhatIsThereWhenTheLastLeavesIsAStep) {
  TokenProtocol protocol = started(1, {.replicas_to_aggregate = 3});
  (void)compute(protocol, 0);
  EXPECT_FALSE(protocol.may_take());
  protocol.leave(0);
  EXPECT_THAT(make_step(protocol), ElementsAre(GradientId{0, 0}));
}

TEST(TokenProtocolTest, WhoRestsIsNotCountedOnUntilAllHaveRested) {
  TokenProtocol protocol = started(3, {.replicas_to_aggregate = 3});
  (void)protocol.take_token(0);
  protocol.rest(0);
  EXPECT_EQ(protocol.quorum(), 2);
  EXPECT_EQ(protocol.take_token(0), std::nullopt);
  protocol.rest(1);
  protocol.rest(2);
  EXPECT_EQ(protocol.quorum(), 3);
  (void)compute(protocol, 1);
  EXPECT_EQ(protocol.take_token(1), std::nullopt) << "the others have theirs still";
  for (const int worker : {0, 2}) EXPECT_EQ(protocol.take_token(worker), 0);
}

// Three of four are there, so one token would do; but all may be waiting for each other to go on.
TEST(TokenProtocolTest, AfterARestEverybodyHasAToken) {
  for (const Tokens tokens : {Tokens::kOwn, Tokens::kShared}) {
    TokenProtocol protocol = started(3, {.replicas_to_aggregate = 4, .tokens = tokens});
    for (const int worker : {0, 1, 2}) {
      if (!protocol.has_token(worker)) (void)protocol.take_token(worker);
      (void)protocol.offer(worker);
    }
    for (const int worker : {0, 1, 2}) protocol.rest(worker);
    for (const int worker : {0, 1, 2}) EXPECT_TRUE(protocol.take_token(worker)) << worker;
  }
}

TEST(TokenProtocolTest, ARestKeepsWhatWasGivenToTheOpenStep) {
  TokenProtocol protocol = started(1, {.replicas_to_aggregate = 3});
  (void)compute(protocol, 0);
  (void)protocol.take_token(0);
  protocol.rest(0);
  EXPECT_FALSE(protocol.may_take());
  EXPECT_TRUE(compute(protocol, 0).is_accepted);
  EXPECT_TRUE(compute(protocol, 0).is_accepted);
  EXPECT_EQ(make_step(protocol).size(), 3U);
}

// As TensorFlow: first gradients take no token, any worker any token, and tokens age in the queue.
TEST(TokenProtocolTest, SharedTokensAreThoseOfTensorFlow) {
  TokenProtocol protocol = started(2, {.replicas_to_aggregate = 2, .tokens = Tokens::kShared});
  EXPECT_EQ(protocol.queued(), 2) << "initial tokens";
  EXPECT_TRUE(protocol.offer(0).is_accepted);
  EXPECT_EQ(protocol.take_token(0), 0);
  EXPECT_TRUE(protocol.offer(1).is_accepted);
  (void)make_step(protocol);
  EXPECT_EQ(protocol.take_token(1), 0);
  EXPECT_EQ(protocol.offer(0).staleness, 1) << "the second gradient of each is wasted";
  EXPECT_EQ(protocol.take_token(0), 1);
  EXPECT_EQ(protocol.queued(), 1);
}

TEST(TokenProtocolTest, WholeStepsDropWhatComesOnTop) {
  for (const Acceptance acceptance : {Acceptance::kWhole, Acceptance::kPerVariable}) {
    TokenProtocol protocol = started(2, {.replicas_to_aggregate = 1, .acceptance = acceptance});
    for (const int worker : {0, 1}) (void)protocol.take_token(worker);
    (void)protocol.offer(0);
    EXPECT_EQ(protocol.offer(1).is_accepted, acceptance == Acceptance::kPerVariable);
    (void)protocol.take();
    EXPECT_THAT(protocol.accepted(), IsEmpty());
    protocol.advance();
  }
}

TEST(TokenProtocolTest, ACompleteStepHasNoTokensMore) {
  TokenProtocol protocol = started(2, {.replicas_to_aggregate = 1});
  (void)compute(protocol, 0);
  EXPECT_EQ(protocol.take_token(1), std::nullopt);
  (void)protocol.take();
  EXPECT_EQ(protocol.take_token(1), std::nullopt) << "before it is applied";
  protocol.advance();
  EXPECT_EQ(protocol.take_token(1), 1);
}

TEST(TokenProtocolTest, NumbersOutOfRangeAreAllNamed) {
  try {
    (void)TokenProtocol(2, {.replicas_to_aggregate = 0, .total_num_replicas = 0});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(HasSubstr("total_num_replicas"), HasSubstr("replicas_to_aggregate")));
  }
  try {
    (void)TokenProtocol(2, {.replicas_to_aggregate = 5, .tokens = Tokens::kShared, .initial_tokens = 2});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 given, 3 needed"));
  }
}

TEST(TokenProtocolTest, TheStepIsNotSetBack) {
  TokenProtocol protocol(1, {.replicas_to_aggregate = 1});
  protocol.set_step(7);
  EXPECT_THROW(protocol.set_step(6), InvariantError);
  protocol.join(0);
  EXPECT_EQ(protocol.take_token(0), 7);
}

// --- going on elsewhere ---------------------------------------------------------------------------------------------

// What was accepted for the step after it is not in a record, what is being applied is.
TEST(TokenProtocolTest, ARecordHasTheStepThatIsTakenAndNoLater) {
  TokenProtocol protocol = started(2, {.replicas_to_aggregate = 1});
  EXPECT_EQ(protocol.record().step, 0);
  for (const int worker : {0, 1}) (void)protocol.take_token(worker);
  (void)protocol.offer(0);
  (void)protocol.offer(1);
  EXPECT_EQ(protocol.record().step, 0);
  (void)protocol.take();
  const TokenProtocol::Record record = protocol.record();
  EXPECT_EQ(record.step, 1);
  EXPECT_EQ(record.seats[0].totals.applied, 1);
  EXPECT_EQ(record.seats[1].totals.dropped, 1);
  protocol.advance();
  EXPECT_EQ(protocol.record().step, 1);
  EXPECT_EQ(protocol.record().seats[0].totals.applied, 1);
  protocol.leave(1);
  EXPECT_EQ(protocol.record().seats[1].is_present, 0);
}

TEST(TokenProtocolTest, ARestoredProtocolGoesOnWithTheStepTheTotalsAndTheSequences) {
  TokenProtocol first = started(2, {.replicas_to_aggregate = 2});
  for (const int worker : {0, 1}) (void)compute(first, worker);
  (void)make_step(first);
  const TokenProtocol::Record record = first.record();
  (void)compute(first, 0);  // and this is lost with the first
  TokenProtocol second(2, {.replicas_to_aggregate = 2});
  second.restore(record);
  second.recall(0, 2, 0);
  second.join(0);
  EXPECT_EQ(second.totals(0).in_flight(), 1);
  EXPECT_EQ(second.take_token(0), 1);
  EXPECT_EQ(second.offer(0).id, (GradientId{0, 2}));
  EXPECT_THAT(make_step(second), ElementsAre(GradientId{0, 2}));
  EXPECT_EQ(second.totals(0).offered, 3);
  EXPECT_EQ(second.totals(0).applied, 2);
  EXPECT_EQ(second.totals(0).in_flight(), 1) << "for ever";
  EXPECT_EQ(second.totals(1).applied, 1);
}

}  // namespace
}  // namespace tandem::sync
