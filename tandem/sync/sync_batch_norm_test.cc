#include "tandem/sync/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <functional>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/local_group.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using torch::Tensor;

constexpr int kSyncedRanks = 3;
constexpr std::int64_t kChannels = 4;

using RankWork = std::function<void(int rank, comm::Group& group, comm::Group& statistics)>;

// Runs `work` as each rank, in a thread of its own, with two groups; what() of each failure.
std::vector<std::string> run_synced_ranks(const RankWork& work) {
  const auto groups = comm::make_local_group(kSyncedRanks), statistics = comm::make_local_group(kSyncedRanks);
  std::vector<std::string> outcomes(kSyncedRanks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kSyncedRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      try {
        work(rank, *groups[index], *statistics[index]);
      } catch (const std::exception& error) {
        groups[index]->abort(error.what());
        statistics[index]->abort(error.what());
        outcomes[index] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

const auto kAllPassed = ::testing::Each(::testing::StrEq(""));

// Rank r has 2r + 1 of the 9 rows; far from zero, where float32 loses what a sum of squares would need.
Range rows_of_rank(int rank) { return {rank * rank, (rank + 1) * (rank + 1)}; }

Tensor inputs(const std::vector<std::int64_t>& shape) {
  const Tensor values = torch::arange(torch::empty(shape).numel(), torch::kFloat);
  return (torch::sin(values.square()) * 3 + 50).view(shape);
}

void set_affine(const Tensor& weight, const Tensor& bias) {
  const torch::NoGradGuard no_grad;
  weight.copy_(torch::linspace(0.5, 2, kChannels));
  bias.copy_(torch::linspace(-1, 1, kChannels));
}

torch::nn::BatchNormOptions options() { return torch::nn::BatchNormOptions(kChannels).momentum(0.3); }

// The definition: a batch norm over everybody's rows. Two passes, then one in eval mode.
template <typename BatchNorm>
void expect_batch_norm_of_all_rows(const std::vector<std::int64_t>& shape) {
  const Tensor x = inputs(shape).requires_grad_(), towards = torch::cos(inputs(shape));
  BatchNorm whole(options());
  set_affine(whole->weight, whole->bias);
  whole(x.detach() * 2);
  const Tensor expected = whole(x);
  (expected * towards).sum().backward();
  whole->eval();
  const Tensor expected_eval = whole(x);

  std::vector<Tensor> weight_gradients(kSyncedRanks), bias_gradients(kSyncedRanks), means(kSyncedRanks),
      variances(kSyncedRanks);
  EXPECT_THAT(run_synced_ranks([&](int rank, comm::Group&, comm::Group& group) {
                const auto part = [rank](const Tensor& of) {
                  return of.slice(0, rows_of_rank(rank).begin, rows_of_rank(rank).end);
                };
                const Tensor mine = part(x.detach()).clone().requires_grad_();
                SyncBatchNorm norm(options(), group);
                set_affine(norm->weight, norm->bias);
                norm(mine.detach() * 2);
                const Tensor out = norm(mine);
                EXPECT_TRUE(torch::allclose(out, part(expected), 1e-4, 1e-4)) << "rank " << rank;
                (out * part(towards)).sum().backward();
                EXPECT_TRUE(torch::allclose(mine.grad(), part(x.grad()), 1e-4, 1e-5)) << "rank " << rank;
                norm->eval();
                EXPECT_TRUE(torch::allclose(norm(mine), part(expected_eval), 1e-5, 1e-5)) << "rank " << rank;
                EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 2);
                const auto index = static_cast<std::size_t>(rank);
                weight_gradients[index] = norm->weight.grad();
                bias_gradients[index] = norm->bias.grad();
                means[index] = norm->running_mean;
                variances[index] = norm->running_var;
              }),
              kAllPassed);
  EXPECT_TRUE(torch::allclose(torch::stack(weight_gradients).sum(0), whole->weight.grad(), 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(torch::stack(bias_gradients).sum(0), whole->bias.grad(), 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(means[0], whole->running_mean, 1e-6, 1e-6));
  EXPECT_TRUE(torch::allclose(variances[0], whole->running_var, 1e-5, 1e-5));
  for (std::size_t rank = 1; rank < kSyncedRanks; ++rank) {
    EXPECT_TRUE(torch::equal(means[rank], means[0])) << "rank " << rank;
    EXPECT_TRUE(torch::equal(variances[rank], variances[0])) << "rank " << rank;
  }
}

TEST(SyncBatchNormTest, ItIsTheBatchNormOfAllMembersRowsInOneDimension) {
  expect_batch_norm_of_all_rows<torch::nn::BatchNorm1d>({9, kChannels});
}

TEST(SyncBatchNormTest, ItIsTheBatchNormOfAllMembersRowsInTwoDimensions) {
  expect_batch_norm_of_all_rows<torch::nn::BatchNorm2d>({9, kChannels, 3, 2});
}

// first -> norm -> last, with one norm or another.
template <typename Norm>
struct SyncedNet : torch::nn::Module {
  explicit SyncedNet(Norm layer) : norm(std::move(layer)) {
    first = register_module("first", torch::nn::Linear(5, kChannels));
    register_module("norm", norm);
    last = register_module("last", torch::nn::Linear(kChannels, 1));
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kFloat) + 1).view_as(parameter));
  }
  Tensor loss(const Tensor& x) { return last(torch::tanh(norm(first(x)))).square().mean(); }
  torch::nn::Linear first{nullptr}, last{nullptr};
  Norm norm;
};

Tensor rows(int step, int pass) {
  return torch::sin(torch::arange(45, torch::kFloat).square() + step * 2 + pass).view({9, 5});
}

TEST(SyncBatchNormTest, TrainingWithAccumulatedPassesIsThatOfOneProcess) {
  SyncedNet<torch::nn::BatchNorm1d> whole{torch::nn::BatchNorm1d(options())};
  torch::optim::SGD sgd(whole.parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    for (int pass = 0; pass < 2; ++pass) (whole.loss(rows(step, pass)) / 2).backward();
    sgd.step();
  }
  EXPECT_THAT(run_synced_ranks([&](int rank, comm::Group& group, comm::Group& statistics) {
                const auto net = std::make_shared<SyncedNet<SyncBatchNorm>>(SyncBatchNorm(options(), statistics));
                DataParallel parallel(net, group, {.optimizer = {model::SgdOptions{.lr = 0.1}}, .patience = 60s});
                const Range mine = rows_of_rank(rank);
                for (int step = 0; step < 3; ++step) {
                  parallel.accumulate(net->loss(rows(step, 0).slice(0, mine.begin, mine.end)), mine.size());
                  parallel.backward(net->loss(rows(step, 1).slice(0, mine.begin, mine.end)), mine.size());
                  parallel.step();
                }
                parallel.require_same_state();
                const auto expected = whole.named_parameters();
                for (const auto& entry : net->named_parameters())
                  EXPECT_TRUE(torch::allclose(entry.value(), expected[entry.key()], 1e-4, 1e-5)) << entry.key();
                EXPECT_TRUE(torch::allclose(net->norm->running_var, whole.norm->running_var, 1e-4, 1e-5));
              }),
              kAllPassed);
}

TEST(SyncBatchNormTest, InputsOfOtherShapesAndASingleValueAreRefused) {
  const auto outcomes = run_synced_ranks([](int rank, comm::Group&, comm::Group& group) {
    SyncBatchNorm norm(options(), group);
    EXPECT_THROW(norm(torch::ones({2, kChannels + 1})), DataError);
    norm(torch::ones({rank == 0 ? 1 : 0, kChannels}));
  });
  EXPECT_THAT(outcomes, ::testing::Each(HasSubstr("1 values a channel")));
}

TEST(SyncBatchNormTest, WithoutAMomentumTheRunningMeanIsThatOfAllPasses) {
  EXPECT_THAT(run_synced_ranks([](int rank, comm::Group&, comm::Group& group) {
                SyncBatchNorm norm(torch::nn::BatchNormOptions(1).momentum(std::nullopt), group);
                for (const double value : {0.0, 3.0, 6.0}) norm(torch::full({2, 1}, value + rank));
                EXPECT_FLOAT_EQ(norm->running_mean.item<float>(), 4) << "the mean of 1, 4 and 7";
              }),
              kAllPassed);
}

}  // namespace
}  // namespace tandem::sync
