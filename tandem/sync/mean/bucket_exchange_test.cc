#include "tandem/sync/mean/bucket_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A local group that says of itself that it goes on alone, and notes how long each vector is that is started.
class NotedGroup final : public comm::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  [[nodiscard]] bool goes_on_alone() const override { return true; }
  comm::Pending start_all_reduce(const at::Tensor& flat) override {
    started.push_back(flat.numel());
    started_at.push_back(flat.const_data_ptr());
    return ForwardingGroup::start_all_reduce(flat);
  }

  std::vector<std::int64_t> started;
  std::vector<const void*> started_at;
};

// Two layers of about two buckets' sizes each, and a small one that is registered last and used first: it shares the
// last bucket with the layer before it, which therefore is ready last. The other holds second's weights and its bias.
struct WideNet : torch::nn::Module {
  WideNet() {
    second = register_module("second", torch::nn::Linear(1400, 1400));
    third = register_module("third", torch::nn::Linear(1400, 1400));
    first = register_module("first", torch::nn::Linear(4, 1400));
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel())).mul(0.03).view_as(parameter));
  }
  torch::Tensor forward(const torch::Tensor& x) { return third(torch::tanh(second(torch::tanh(first(x))))); }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};

// Trains on two ranks; the parameters at the end, and what rank 0's group was asked to sum.
struct Trained {
  at::Tensor values;
  std::vector<std::int64_t> during_backward, in_all;  // lengths in the second step
  std::vector<const void*> order;
  double norm = 0;  // of the mean gradient in the last step
};

template <typename Wrap>
Trained train_two_ranks(const Wrap& wrap, int steps) {
  auto members = comm::make_local_group(2);
  Trained trained;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = wrap(std::move(members[static_cast<std::size_t>(rank)]));
      const auto net = std::make_shared<WideNet>();
      DataParallel parallel(net, *group, {.optimizer = {model::SgdOptions{.lr = 0.1}}, .patience = 60s});
      const torch::Tensor x = torch::full({2, 4}, 0.3 + rank);
      auto* noted = dynamic_cast<NotedGroup*>(group.get());
      for (int step = 0; step < steps; ++step) {
        if (noted != nullptr) {
          noted->started.clear();
          noted->started_at.clear();
        }
        const torch::Tensor loss = net->forward(x).square().mean();
        parallel.backward(loss, 2);
        if (rank == 0 && noted != nullptr) trained.during_backward = noted->started;
        const StepReport report = parallel.step();
        if (rank == 0) trained.norm = report.grad_norm;
        if (rank == 0 && noted != nullptr) {
          trained.in_all = noted->started;
          trained.order = noted->started_at;
        }
      }
      parallel.require_same_state();
      if (rank == 0) trained.values = parallel.replica().parameters().buffers()[0].values.clone();
    });
  }
  threads.clear();
  return trained;
}

std::unique_ptr<comm::Group> as_it_is(std::unique_ptr<comm::Group> group) { return group; }
std::unique_ptr<comm::Group> noted(std::unique_ptr<comm::Group> group) {
  return std::make_unique<NotedGroup>(std::move(group));
}

TEST(BucketExchangeTest, BucketsHaveTheBitsOfOnePieceAndAreStartedWhileTheBackwardPassRuns) {
  const Trained whole = train_two_ranks(as_it_is, 3), buckets = train_two_ranks(noted, 3);
  EXPECT_TRUE(torch::equal(whole.values, buckets.values));
  EXPECT_EQ(whole.norm, buckets.norm) << "of squares that are added up as the buckets come";
  EXPECT_EQ(buckets.during_backward.size(), 5U) << "the rows, and two buckets in two pieces each";
  EXPECT_EQ(buckets.in_all.size(), 7U) << "presence flags and tally are summed afterwards";
}

// At first from the last registered to the first; then as they became ready.
TEST(BucketExchangeTest, FromTheSecondStepOnTheOrderIsThatOfReadiness) {
  const Trained first = train_two_ranks(noted, 1), later = train_two_ranks(noted, 2);
  ASSERT_EQ(first.during_backward.size(), 5U);
  ASSERT_EQ(later.during_backward.size(), 5U);
  const auto last_in_memory = [](const Trained& trained) {  // behind the rows
    return std::max_element(trained.order.begin() + 1, trained.order.begin() + 5) - trained.order.begin() - 1;
  };
  EXPECT_EQ(last_in_memory(first), 1);
  EXPECT_EQ(last_in_memory(later), 3);
}

// Rank 1 takes no step.
std::string error_of_a_sum(const std::function<std::unique_ptr<comm::Group>(std::unique_ptr<comm::Group>)>& wrap) {
  auto members = comm::make_local_group(2);
  std::string error;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = wrap(std::move(members[static_cast<std::size_t>(rank)]));
      const auto net = std::make_shared<WideNet>();
      DataParallel parallel(net, *group, {.patience = rank == 0 ? Clock::duration(3s) : 60s});
      if (rank == 1) return;
      parallel.backward(net->forward(torch::ones({1, 4})).mean());
      try {
        parallel.average();
      } catch (const DeadlineExceeded& deadline) {
        error = deadline.what();
      }
    });
  }
  threads.clear();
  return error;
}

TEST(BucketExchangeTest, ASumThatFailsSaysOfWhichGradientsItWas) {
  EXPECT_THAT(error_of_a_sum(noted), HasSubstr("the sum of the gradients third.weight..first.bias: all_reduce #"));
  EXPECT_THAT(error_of_a_sum(as_it_is), HasSubstr("the sum of the gradients second.weight..first.bias: all_reduce #"));
}

// A group that is closed when the second collective of a step, which is the tally's, is started.
class ClosingGroup final : public comm::ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  comm::Pending start_all_reduce(const at::Tensor& flat) override {
    if (++started_ == 2) throw PeerLost(1, "rank 1 left the group");
    return ForwardingGroup::start_all_reduce(flat);
  }

 private:
  int started_ = 0;
};

TEST(BucketExchangeTest, AGroupThatIsClosedWhileTheTallyIsStartedSaysOfWhichGradientsTheSumsWere) {
  auto members = comm::make_local_group(2);
  std::jthread other([group = std::move(members[1])] {
    DataParallel parallel(std::make_shared<WideNet>(), *group, {.patience = 60s});
  });
  ClosingGroup group(std::move(members[0]));
  const auto net = std::make_shared<WideNet>();
  DataParallel parallel(net, group, {.patience = 60s});
  parallel.backward(net->forward(torch::ones({1, 4})).mean());
  try {
    parallel.average();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const PeerLost& error) {
    EXPECT_STREQ(error.what(), "the sum of the gradients second.weight..first.bias: rank 1 left the group");
  }
}

TEST(BucketExchangeTest, APassAfterTheLastOneIsRefused) {
  NotedGroup group(std::move(comm::make_local_group(1).front()));
  const auto net = std::make_shared<WideNet>();
  DataParallel parallel(net, group, {});
  parallel.backward(net->forward(torch::ones({1, 4})).mean());
  EXPECT_THROW(parallel.accumulate(net->forward(torch::ones({1, 4})).mean()), ConfigError);
}

}  // namespace
}  // namespace tandem::sync
