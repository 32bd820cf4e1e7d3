#include "tandem/sync/mean/early_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

// Goes on alone, as it says, and tells of each wait before it.
class WatchedGroup final : public comm::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  [[nodiscard]] bool goes_on_alone() const override { return true; }
  std::function<void(int wait)> on_wait;  // of this step, counted from 0
  int waits = 0;

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override {
    if (on_wait) on_wait(waits);
    ++waits;
    ForwardingGroup::finish(ticket, limits);
  }
};

// Five buckets or more: each layer is larger than one. `extra` is reached by some losses only, `fine` is of doubles.
struct DeepNet : torch::nn::Module {
  DeepNet() {
    first = register_module("first", torch::nn::Linear(1030, 1030));
    extra = register_module("extra", torch::nn::Linear(1030, 1030));
    second = register_module("second", torch::nn::Linear(1030, 1030));
    fine = register_module("fine", torch::nn::Linear(1030, 600));
    fine->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kDouble)).mul(0.03).view_as(parameter));
  }
  // Of two rows that tell rank and step.
  torch::Tensor loss(int rank, int step) {
    const torch::Tensor x = torch::arange(2 * 1030, torch::kFloat).add(7 * rank + step).cos().view({2, 1030});
    torch::Tensor hidden = torch::tanh(first(x));
    if (reaches_extra(rank, step)) hidden = torch::tanh(extra(hidden));
    return fine(torch::tanh(second(hidden)).to(torch::kDouble)).square().mean();
  }
  // By all losses, by that of rank 0, or by none.
  static bool reaches_extra(int rank, int step) { return step % 3 == 0 || (step % 3 == 1 && rank == 0); }
  torch::nn::Linear first{nullptr}, extra{nullptr}, second{nullptr}, fine{nullptr};
};

std::vector<torch::Tensor> all_state_of(DataParallel& parallel) {
  std::vector<torch::Tensor> state;
  for (const auto& named : parallel.replica().state()) state.push_back(named.second.clone());
  return state;
}

bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::ranges::equal(a, b, [](const torch::Tensor& x, const torch::Tensor& y) { return torch::equal(x, y); });
}

using DeepWork = std::function<void(DataParallel&, DeepNet&, WatchedGroup&)>;

// Runs `work` as each rank, in a thread of its own; what() of each failure.
std::vector<std::string> run_watched(comm::Groups members, const DataParallelOptions& options, const DeepWork& work) {
  std::vector<std::string> outcomes(members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      WatchedGroup group(std::move(members[rank]));
      try {
        const auto net = std::make_shared<DeepNet>();
        DataParallel parallel(net, group, options);
        work(parallel, *net, group);
      } catch (const std::exception& error) {
        group.abort(error.what());
        outcomes[rank] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

DataParallelOptions with_rule(const model::OptimizerOptions& rule) { return {.optimizer = {rule}, .patience = 60s}; }

// The same bits as without a norm to clip to, by one update at the end.
DataParallelOptions updated_at_the_end(DataParallelOptions options) {
  options.mean.max_grad_norm = 1e30;
  return options;
}

struct DeepTraining {
  std::vector<torch::Tensor> state;
  std::vector<double> norms;
};

// Rank 1 has one step less than the others. The fourth step is of two passes.
DeepTraining train_deep(comm::Groups members, const DataParallelOptions& options) {
  DeepTraining trained;
  const auto outcomes =
      run_watched(std::move(members), options, [&](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
        const int rank = group.rank();
        for (int step = 0; step < (rank == 1 ? 5 : 6); ++step) {
          if (step == 3) parallel.accumulate(net.loss(rank, 2), rank + 1);
          parallel.backward(net.loss(rank, step), 2);
          const StepReport report = parallel.step(step == 2 ? 0.3 : 1);
          if (rank == 0) trained.norms.push_back(report.grad_norm);
        }
        parallel.finish();
        parallel.require_same_state();
        if (rank == 0) trained.state = all_state_of(parallel);
      });
  EXPECT_THAT(outcomes, Each(StrEq("")));
  return trained;
}

struct NamedRule {
  const char* name;
  model::OptimizerOptions options;
};

class EarlyUpdateLawTest : public ::testing::TestWithParam<NamedRule> {};

TEST_P(EarlyUpdateLawTest, HasTheBitsOfOneUpdateAtTheEnd) {
  const DataParallelOptions options = with_rule(GetParam().options);
  const DeepTraining early = train_deep(comm::make_local_group(2), options);
  const DeepTraining late = train_deep(comm::make_local_group(2), updated_at_the_end(options));
  EXPECT_TRUE(same_bits(early.state, late.state));
  EXPECT_EQ(early.norms, late.norms);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, EarlyUpdateLawTest,
    ::testing::Values(NamedRule{"momentum", model::SgdOptions{.lr = 0.1, .momentum = 0.9}},
                      NamedRule{"adam", model::AdamOptions{.lr = 1e-3, .weight_decay = 0.01}},
                      NamedRule{"rmsprop", model::RmspropOptions{.lr = 1e-3, .weight_decay = 0.05, .momentum = 0.5}}),
    [](const auto& rule) { return rule.param.name; });

TEST(EarlyUpdateTest, HasTheSameBitsOnLayersOfGroupsWhoseThreadsCarrySums) {
  const auto layers = [] { return comm::layered({2, 2}, comm::Outer::kGoesOnAlone); };
  const DataParallelOptions options = with_rule(model::AdamOptions{});
  EXPECT_TRUE(same_bits(train_deep(layers(), options).state, train_deep(layers(), updated_at_the_end(options)).state));
}

// Wait 0 is for the rows; then come the buckets, the last parameters' first, and what belongs to all of them.
TEST(EarlyUpdateTest, BucketsThatHaveComeAreUpdatedWhileOthersAreAwaited) {
  std::vector<std::string> changed;
  const auto outcomes = run_watched(
      comm::make_local_group(2), with_rule(model::SgdOptions{.lr = 0.1}),
      [&](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
        const torch::Tensor fine = net.fine->weight.detach().clone(), first = net.first->weight.detach().clone();
        parallel.backward(net.loss(group.rank(), 0), 2);
        group.waits = 0;
        group.on_wait = [&](int) {
          if (group.rank() != 0) return;
          changed.emplace_back(concat(torch::equal(fine, net.fine->weight) ? "" : "fine ",
                                      torch::equal(first, net.first->weight) ? "" : "first"));
        };
        parallel.step();
      });
  EXPECT_THAT(outcomes, Each(StrEq("")));
  ASSERT_GT(changed.size(), 6U);
  EXPECT_EQ(changed[0], "");
  EXPECT_EQ(changed[1], "");
  EXPECT_THAT(changed, ::testing::Contains("fine "));
  EXPECT_EQ(changed.back(), "fine first");
}

TEST(EarlyUpdateTest, AGradientThatIsNotFiniteLeavesParametersMomentsAndStepCountsAsTheyWere) {
  const DataParallelOptions options = with_rule(model::AdamOptions{});
  for (const std::string& bad : {std::string("fine.bias"), std::string("first.bias")}) {
    const auto train_past_it = [&](const DataParallelOptions& how) {
      std::vector<torch::Tensor> end;
      const auto outcomes =
          run_watched(comm::make_local_group(2), how, [&](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
            parallel.backward(net.loss(group.rank(), 0), 2);
            parallel.step();
            const std::vector<torch::Tensor> before = all_state_of(parallel);
            torch::Tensor loss = net.loss(group.rank(), 1);
            if (group.rank() == 1)
              loss = loss + net.named_parameters()[bad].sum() * std::numeric_limits<double>::quiet_NaN();
            parallel.backward(loss, 2);
            try {
              parallel.step();
              ADD_FAILURE() << "nothing was thrown";
            } catch (const RunError& error) {
              EXPECT_THAT(error.what(), HasSubstr("the gradient of '" + bad + "'"));
              EXPECT_THAT(error.what(), HasSubstr("The parameters are those of step 1."));
            }
            EXPECT_TRUE(same_bits(before, all_state_of(parallel))) << bad;
            parallel.backward(net.loss(group.rank(), 2), 2);
            parallel.step();
            if (group.rank() == 0) end = all_state_of(parallel);
          });
      EXPECT_THAT(outcomes, Each(StrEq("")));
      return end;
    };
    EXPECT_TRUE(same_bits(train_past_it(options), train_past_it(updated_at_the_end(options)))) << bad;
  }
}

// Of rank 0's second step, at each of its waits in turn.
TEST(EarlyUpdateTest, ARankThatIsLostAmongTheSumsLeavesParametersMomentsAndStepCountsAsTheyWere) {
  int fails_at = 0, had_changed = 0;
  for (bool has_failed = true; has_failed; ++fails_at) {
    has_failed = false;
    run_watched(comm::make_local_group(2), with_rule(model::SgdOptions{.lr = 0.1, .momentum = 0.9}),
                [&](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
                  parallel.backward(net.loss(group.rank(), 0), 2);
                  parallel.step();
                  const std::vector<torch::Tensor> before = all_state_of(parallel);
                  group.waits = 0;
                  group.on_wait = [&](int wait) {
                    if (group.rank() != 0 || wait != fails_at) return;
                    has_failed = true;
                    had_changed += same_bits(before, all_state_of(parallel)) ? 0 : 1;
                    throw PeerLost(1, "rank 1 left the group");
                  };
                  parallel.backward(net.loss(group.rank(), 1), 2);
                  if (group.rank() == 1) {
                    parallel.step();
                    return;
                  }
                  try {
                    parallel.step();
                  } catch (const PeerLost&) {
                    EXPECT_TRUE(same_bits(before, all_state_of(parallel))) << "wait " << fails_at;
                    throw;
                  }
                });
  }
  EXPECT_GT(fails_at, 7);
  EXPECT_GT(had_changed, 3);
}

TEST(EarlyUpdateTest, AverageLeavesTheParametersAloneAndStepsMayFollowIt) {
  const auto outcomes = run_watched(comm::make_local_group(2), with_rule(model::SgdOptions{.lr = 0.1}),
                                    [](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
                                      const std::vector<torch::Tensor> before = all_state_of(parallel);
                                      parallel.backward(net.loss(group.rank(), 0), 2);
                                      parallel.average();
                                      EXPECT_TRUE(same_bits(before, all_state_of(parallel)));
                                      parallel.backward(net.loss(group.rank(), 0), 2);
                                      EXPECT_EQ(parallel.step().weight, 4);
                                      EXPECT_FALSE(same_bits(before, all_state_of(parallel)));
                                    });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

// Rank 1's last pass is one of accumulate().
TEST(EarlyUpdateTest, ARankWhosePassesAllAccumulateOffersItsRowsInItsStep) {
  const auto outcomes = run_watched(comm::make_local_group(2), with_rule(model::SgdOptions{.lr = 0.1}),
                                    [](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
                                      const torch::Tensor loss = net.loss(group.rank(), 0);
                                      if (group.rank() == 0) parallel.backward(loss, 2);
                                      if (group.rank() == 1) parallel.accumulate(loss, 3);
                                      EXPECT_EQ(parallel.step().weight, 5);
                                      parallel.require_same_state();
                                    });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(EarlyUpdateTest, ARankThatIsMissingFromTheBeginIsMissedByTheSumOfTheRows) {
  DataParallelOptions options = with_rule(model::SgdOptions{.lr = 0.1});
  options.patience = 1s;
  const auto outcomes =
      run_watched(comm::make_local_group(2), options, [](DataParallel& parallel, DeepNet& net, WatchedGroup& group) {
        if (group.rank() == 1) return;
        parallel.backward(net.loss(0, 0), 2);
        parallel.step();
      });
  EXPECT_THAT(outcomes[0], HasSubstr("the sum of the rows of all ranks: "));
}

}  // namespace
}  // namespace tandem::sync
