// Who enters an exchange, and with whose counts and state. Its arithmetic is tested with the strategy.
#include "tandem/sync/local/local_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/comm/testing/member_threads.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using Groups = std::vector<std::unique_ptr<comm::Group>>;
using Knows = LocalExchange::Knows;

// A replica of one Linear layer, full of its rank, and its exchange.
struct Local {
  Local(comm::Group& group, int rank, const LocalStepsOptions& options)
      : replica(place_on_cpu(3, 3)[static_cast<std::size_t>(rank)], std::make_shared<torch::nn::LinearImpl>(3, 2), 1,
                {model::SgdOptions{.lr = 0.1}}),
        exchange(replica, group, options) {
    const torch::NoGradGuard no_grad;
    values().fill_(rank);
    exchange.begin();
  }
  [[nodiscard]] const torch::Tensor& values() { return replica.parameters().buffers()[0].values; }
  void make_steps(int count) {
    for (int i = 0; i < count; ++i) {
      exchange.count_step(1);
      exchange.exchange_due(within(60s));
    }
  }

  Replica replica;
  LocalExchange exchange;
};

// After an agreement all have made no step since; who made most of all tells how far the run is.
TEST(LocalExchangeTest, ANewcomerCountsAsWhoMadeMostSteps) {
  Groups before = comm::make_local_group(2);
  comm::expect_all_return(comm::run_as_members(3, [&](comm::Group& group) {
    const bool is_new = group.rank() == 2;
    Local local(is_new ? group : *before[static_cast<std::size_t>(group.rank())], group.rank(), {.every = 100});
    if (!is_new) {
      local.make_steps(group.rank() == 0 ? 2 : 43);
      local.exchange.agree(within(60s));
    }
    local.exchange.enter(group, is_new ? Knows::kNothing : Knows::kItsOwn, within(60s));
    EXPECT_EQ(local.exchange.steps(), group.rank() == 0 ? 2 : 43);
  }));
}

// A rank that has come to its end takes part in ten exchanges, and then is the only one that a newcomer finds. The next
// exchange comes as long after as any.
TEST(LocalExchangeTest, ANewcomerCountsTheStepsOfTheExchangesThatAWaitingRankTookPartIn) {
  Groups before = comm::make_local_group(2), after = comm::make_local_group(2);
  const LocalStepsOptions options{.every = 4};
  comm::expect_all_return(comm::run_as_members(3, [&](comm::Group& all) {
    if (all.rank() == 2) {
      all.barrier(within(60s));
      Local newcomer(*after[1], 2, options);
      newcomer.exchange.enter(*after[1], Knows::kNothing, within(60s));
      EXPECT_EQ(newcomer.exchange.steps(), 40);
      EXPECT_EQ(newcomer.exchange.over(), 10);
      newcomer.make_steps(3);
      EXPECT_EQ(newcomer.exchange.over(), 10);
      newcomer.make_steps(1);
      EXPECT_EQ(newcomer.exchange.over(), 11);
      return;
    }
    Local local(*before[static_cast<std::size_t>(all.rank())], all.rank(), options);
    if (all.rank() == 1) {
      local.make_steps(40);
      return all.barrier(within(60s));
    }
    local.make_steps(2);
    for (int exchange = 0; exchange < 10; ++exchange) EXPECT_FALSE(local.exchange.try_leave(within(60s)));
    local.exchange.finish(within(60s));
    all.barrier(within(60s));
    local.exchange.enter(*after[0], Knows::kItsOwn, within(60s));
    EXPECT_FALSE(local.exchange.try_leave(within(60s)));
    local.exchange.finish(within(60s));
  }));
}

// A member that is lost after the first tensor that it hands out.
class GivesOne final : public comm::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    if (std::exchange(has_given_, true)) throw PeerLost(root, "it is gone");
    ForwardingGroup::broadcast(flat, root, limits);
  }

 private:
  bool has_given_ = false;
};

// Rank 1 lacks an exchange, and loses who could tell it in the midst: it has the state that its counts are of.
TEST(LocalExchangeTest, WhoLosesTheOthersWhileItCatchesUpKeepsItsState) {
  Groups after = comm::make_local_group(2);
  const LocalStepsOptions options{.every = 1, .outer = Outer::kNesterov};
  const auto outcomes = comm::run_as_members(2, [&](comm::Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    GivesOne lossy(std::move(after[rank]));
    Groups alone = comm::make_local_group(1);
    Local local(*alone[0], group.rank(), options);
    local.values().add_(5);
    if (rank == 0) local.make_steps(1);
    const auto state = [&] {
      std::vector<torch::Tensor> all{local.values().clone()};
      for (const auto& [name, tensor] : local.exchange.besides()) all.push_back(tensor.clone());
      return all;
    };
    const std::vector<torch::Tensor> known = state();
    EXPECT_THROW(local.exchange.enter(lossy, Knows::kItsOwn, within(60s)), PeerLost);
    EXPECT_EQ(local.exchange.over(), rank == 0 ? 1 : 0);
    const std::vector<torch::Tensor> kept = state();
    ASSERT_EQ(kept.size(), known.size());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(torch::equal(kept[i], known[i])) << i;
    group.barrier(within(60s));
  });
  comm::expect_all_return(outcomes);
}

}  // namespace
}  // namespace tandem::sync
