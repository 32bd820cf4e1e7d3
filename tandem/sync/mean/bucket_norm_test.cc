// Gradients that are summed in buckets have the norm, and the step, of those that are summed in one piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <thread>

#include "tandem/comm/local_group.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {
namespace {

// Of float and double parameters, each of more than one bucket; only rank 0's losses reach `some`.
struct TwoTypes : torch::nn::Module {
  TwoTypes() {
    wide = register_module("wide", torch::nn::Linear(1100, 1100));
    some = register_module("some", torch::nn::Linear(1100, 1100));
    fine = register_module("fine", torch::nn::Linear(1100, 700));
    finer = register_module("finer", torch::nn::Linear(700, 900));
    fine->to(torch::kDouble);
    finer->to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kDouble)).mul(0.03).view_as(parameter));
  }
  torch::Tensor loss(int rank) {
    const torch::Tensor x = torch::arange(2 * 1100, torch::kFloat).add(rank).cos().view({2, 1100});
    torch::Tensor hidden = torch::tanh(wide(x));
    if (rank == 0) hidden = torch::tanh(some(hidden));
    return finer(torch::tanh(fine(hidden.to(torch::kDouble)))).square().mean();
  }
  torch::nn::Linear wide{nullptr}, some{nullptr}, fine{nullptr}, finer{nullptr};
};

struct TypesTraining {
  std::vector<torch::Tensor> values;
  std::vector<double> norms;
};

enum class Way { kInOnePiece, kInBuckets };

TypesTraining train_two_types(Way way, const MeanOptions& mean) {
  TypesTraining trained;
  auto members = comm::make_local_group(2);
  if (way == Way::kInBuckets) {
    for (auto& member : members) member = std::make_unique<comm::AloneGroup>(std::move(member));
  }
  const DataParallelOptions options{.optimizer = {model::SgdOptions{.lr = 0.1}}, .mean = mean};
  const auto outcomes = comm::run_all(std::move(members), [&](comm::Group& group) {
    const auto net = std::make_shared<TwoTypes>();
    DataParallel parallel(net, group, options);
    for (int step = 0; step < 3; ++step) {
      parallel.backward(net->loss(group.rank()), 2);
      const StepReport report = parallel.step();
      if (group.rank() == 0) trained.norms.push_back(report.grad_norm);
    }
    parallel.require_same_state();
    for (const model::FlatBuffer& buffer : parallel.replica().parameters().buffers()) {
      if (group.rank() == 0) trained.values.push_back(buffer.values.clone());
    }
  });
  EXPECT_THAT(outcomes, ::testing::Each(::testing::StrEq("")));
  return trained;
}

TypesTraining expect_same(const MeanOptions& mean) {
  const TypesTraining whole = train_two_types(Way::kInOnePiece, mean), buckets = train_two_types(Way::kInBuckets, mean);
  EXPECT_EQ(whole.norms, buckets.norms);
  EXPECT_EQ(whole.values.size(), 2U) << "a flat buffer a type";
  EXPECT_EQ(buckets.values.size(), 2U);
  for (std::size_t b = 0; b < 2; ++b) EXPECT_TRUE(torch::equal(whole.values.at(b), buckets.values.at(b))) << b;
  return buckets;
}

TEST(BucketNormTest, FloatAndDoubleParametersHaveTheBitsOfOnePiece) { expect_same({}); }

TEST(BucketNormTest, ClippedMeansOverThoseThatHaveAGradientHaveTheBitsOfOnePiece) {
  const MeanOptions mean{.max_grad_norm = 1e-3, .divisor = Divisor::kPresent};
  const TypesTraining clipped = expect_same(mean);
  EXPECT_GT(clipped.norms.front(), 1e-3) << "so it is clipped";
  const TypesTraining total = train_two_types(Way::kInBuckets, {.max_grad_norm = 1e-3});
  EXPECT_GT(clipped.norms.front(), total.norms.front()) << "what rank 0 alone reached counts twice as much";
}

}  // namespace
}  // namespace tandem::sync
