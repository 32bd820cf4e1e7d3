#include "tandem/sync/sync_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;

class SyncVariablesTest : public testing::Test {
 protected:
  // Replica `who` offers its number plus one everywhere, and has to go on within `limits`.
  Outcome exchange(int who, const Limits& limits = within(60s)) {
    gradients_.flat[0].fill_(who + 1);
    Outcome told;
    variables_.exchange({.replica = who, .learning_rate = 1, .tally = {.weight = 1, .shards = 1, .rate = 1}},
                        &gradients_, limits, [&](const Outcome& outcome, const std::vector<model::FlatBuffer>& values) {
                          told = outcome;
                          value_ = values[0].values[0].item<double>();
                        });
    return told;
  }
  void join_all() {
    for (int who = 0; who < 3; ++who) variables_.resume(who, within(60s), [](const auto&, const auto&) {});
  }

  Replica replica_{place_on_cpu(3, 3).front(), std::make_shared<Linear>(), 1, {model::SgdOptions{.lr = 1}}};
  SyncVariables variables_{replica_, {.protocol = {.workers = 3, .aggregate = 2}}};
  model::FlatParameters::Gradients gradients_ = variables_.make_gradients();
  double value_ = 0;
};

TEST_F(SyncVariablesTest, WhoRestsMayBeGoneBeforeTheOthersRest) {
  join_all();
  variables_.rest(1);
  variables_.lose(1, std::make_exception_ptr(PeerLost(1, "ended")));
  variables_.rest(0);
  variables_.rest(2);
  variables_.lose(2, std::make_exception_ptr(PeerLost(2, "died")));
  EXPECT_THROW(variables_.rest(0), PeerLost) << "all work again, and one of them is gone";
}

TEST_F(SyncVariablesTest, AGradientIsNotLostWhenItsReplicaStopsWaiting) {
  join_all();
  EXPECT_THROW((void)exchange(0, within(1ms)), DeadlineExceeded);
  const Outcome second = exchange(2);
  EXPECT_EQ(second.verdict, Verdict::kApplied);
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(second.gradients, 2);
  EXPECT_EQ(value_, -2) << "the mean of 1 and 3";
  const Outcome late = exchange(1);
  EXPECT_EQ(late.verdict, Verdict::kDropped);
  EXPECT_EQ(late.staleness, 1);
  EXPECT_THAT(variables_.newest(), testing::ElementsAre(GradientId{0, 0}, GradientId{2, 0}));
}

TEST_F(SyncVariablesTest, AGradientWithoutATokenIsADefect) { EXPECT_THROW((void)exchange(0), InvariantError); }

}  // namespace
}  // namespace tandem::sync
