#include "tandem/sync/variables/sync_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;

class SyncVariablesTest : public ::testing::Test {
 protected:
  // Replica `who` offers its number plus one everywhere, and has to go on within `limits`.
  StepReport exchange(int who, const Limits& limits = within(60s)) { return exchange(who, limits, who + 1); }
  StepReport exchange(int who, const Limits& limits, double gradient) {
    gradients_.flat[0].fill_(gradient);
    StepReport told;
    variables_.exchange({.replica = who, .learning_rate = 1, .tally = {.weight = 1, .shards = 1, .rate = 1}},
                        &gradients_, limits, [&](const StepReport& outcome, const std::vector<at::Tensor>& values) {
                          told = outcome;
                          value_ = values[0][0].item<double>();
                        });
    return told;
  }
  void join_all() {
    for (int who = 0; who < 3; ++who) variables_.resume(who, within(60s), [](const auto&, const auto&) {});
  }

  Replica replica_{place_on_cpu(3, 3).front(), std::make_shared<Linear>(), 1, {model::SgdOptions{.lr = 1}}};
  SyncVariables variables_{replica_, {.replicas_to_aggregate = 2}};
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
  const StepReport second = exchange(2);
  EXPECT_EQ(second.verdict, Verdict::kApplied);
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(second.gradients, 2);
  EXPECT_EQ(value_, -2) << "the mean of 1 and 3";
  const StepReport late = exchange(1);
  EXPECT_EQ(late.verdict, Verdict::kDropped);
  EXPECT_EQ(late.staleness, 1);
  EXPECT_THAT(variables_.newest(), ::testing::ElementsAre(GradientId{0, 0}, GradientId{2, 0}));
}

TEST_F(SyncVariablesTest, TheAccountHasTheSizesOfTheStepsSinceTheOneBefore) {
  join_all();
  EXPECT_THROW((void)exchange(0, within(1ms)), DeadlineExceeded);
  (void)exchange(2);
  (void)exchange(1);
  const GradientAccount account = variables_.take_account();
  EXPECT_EQ(account.replicas.at(1).dropped, 1);
  EXPECT_EQ(account.replicas.at(2).applied, 1);
  EXPECT_EQ(account.sizes.steps, 1);
  EXPECT_EQ(account.sizes.gradients.sum, 2);
  EXPECT_EQ(account.sizes.rows.sum, 2) << "not those of the late one";
  EXPECT_EQ(variables_.take_account().sizes.steps, 0);
}

TEST_F(SyncVariablesTest, AStepThatCannotBeMadeEndsTheWaitsOfAll) {
  join_all();
  std::jthread waiting([this] {
    model::FlatParameters::Gradients gradients = variables_.make_gradients();
    EXPECT_THROW(variables_.exchange({.replica = 0, .tally = {.weight = 1, .shards = 1, .rate = 1}}, &gradients,
                                     within(60s), [](const auto&, const auto&) {}),
                 RunError);
    EXPECT_THROW(variables_.rest(0), RunError) << "and everything after that";
  });
  ASSERT_TRUE(eventually([this] { return variables_.take_account().replicas[0].offered == 1; }));
  EXPECT_THAT([this] { (void)exchange(2, within(60s), std::nan("")); },
              ::testing::ThrowsMessage<RunError>(::testing::HasSubstr("is not finite")));
}

// 0.1 + 0.1 + 0.1 is not 0.3, so the mean of the three factors is not 0.1.
TEST(SyncVariablesRateTest, AFactorThatAllGiveIsTakenAsItIsAndOthersAreAveraged) {
  struct Precise : torch::nn::Module {
    Precise() { register_parameter("values", torch::zeros({1}, torch::kDouble)); }
  };
  Replica replica(place_on_cpu(3, 3).front(), std::make_shared<Precise>(), 1, {model::SgdOptions{.lr = 1}});
  const auto moved = [&](const std::vector<double>& factors) {
    SyncVariables variables(replica, {.replicas_to_aggregate = 3});
    double value = 0;
    std::vector<std::jthread> threads;
    for (int who = 0; who < 3; ++who) {
      threads.emplace_back([&, who] {
        model::FlatParameters::Gradients gradients = variables.make_gradients();
        gradients.flat[0].fill_(1);
        variables.resume(who, within(60s), [](const auto&, const auto&) {});
        const double factor = factors[static_cast<std::size_t>(who)];
        variables.exchange({.replica = who,
                            .learning_rate = 1,
                            .lr_factor = factor,
                            .tally = {.weight = 1, .shards = 1, .rate = factor}},
                           &gradients, within(60s), [&](const StepReport&, const std::vector<at::Tensor>& values) {
                             value = values[0][0].item<double>();
                           });
      });
    }
    threads.clear();
    return -value;
  };
  EXPECT_EQ(moved({0.1, 0.1, 0.1}), 0.1);
  EXPECT_EQ(moved({0.5, 0.25, 0.75}), 0.5);
}

TEST_F(SyncVariablesTest, TheLastRequestOfOneThatDiedDoesNotBringItBack) {
  SyncVariables variables(replica_, {.replicas_to_aggregate = 2, .on_death = OnDeath::kGoOn});
  const auto ignore = [](const auto&...) {};
  for (int who = 0; who < 3; ++who) variables.resume(who, within(60s), ignore);
  std::stop_source gone;
  gone.request_stop();
  const Limits stopped{.deadline = Deadline::after(60s), .stop = gone.get_token()};
  variables.lose(1, std::make_exception_ptr(PeerLost(1, "died")));
  EXPECT_THROW(variables.resume(1, stopped, ignore), GroupAborted);
  EXPECT_THROW(variables.depart(1, stopped, ignore), GroupAborted);
  for (const int who : {0, 2}) variables.leave(who);
  variables.await_departed(within(10s));
}

TEST_F(SyncVariablesTest, AGradientWithoutATokenIsADefect) { EXPECT_THROW((void)exchange(0), InvariantError); }

}  // namespace
}  // namespace tandem::sync
