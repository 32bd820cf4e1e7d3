// Running statistics that ranks have changed since the last step, each by its own rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StrEq;

using AfterStep = std::function<void(DataParallel&, torch::nn::Sequential&, const torch::Tensor& x)>;

// Runs `work` after a step, on two ranks with different rows.
std::vector<std::string> after_a_step(const AfterStep& work) {
  return run_as_members(2, [&](comm::Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 1));
    DataParallel parallel(net.ptr(), group, with_sgd());
    const torch::Tensor x = torch::linspace(-1, 1 + group.rank(), 6).view({2, 3});
    parallel.backward(net->forward(x).square().mean(), 2);
    parallel.step();
    parallel.require_same_state();
    work(parallel, net, x);
  });
}

TEST(DataParallelBuffersTest, AForwardPassAfterTheLastStepIsNamedAsTheCause) {
  EXPECT_THAT(after_a_step([](DataParallel& parallel, torch::nn::Sequential& net, const torch::Tensor& x) {
                net->forward(x);
                parallel.require_same_state();
              }),
              Each(AllOf(HasSubstr("the replicas' buffers differ: 'buffers.1.running_mean' [4] of replica 1"),
                         HasSubstr("while parameters and optimizer are equal"), HasSubstr("Call eval() before passes"),
                         HasSubstr("This is after step 1. synchronise() gives all ranks those of rank 0"),
                         Not(HasSubstr("instruction sets")), Not(HasSubstr("drifted")))));
}

TEST(DataParallelBuffersTest, ParametersThatDifferAreNamedBeforeBuffers) {
  EXPECT_THAT(after_a_step([](DataParallel& parallel, torch::nn::Sequential& net, const torch::Tensor& x) {
                net->forward(x);
                const torch::NoGradGuard no_grad;
                if (parallel.replica().placement().replica == 1) net->parameters().back().add_(1);
                parallel.require_same_state();
              }),
              Each(AllOf(HasSubstr("the replicas have drifted apart: 'parameters.2.bias' [1] of replica 1"),
                         Not(HasSubstr("eval()")))));
}

TEST(DataParallelBuffersTest, EvaluationModeSynchroniseAndTheNextStepKeepThemEqual) {
  EXPECT_THAT(after_a_step([](DataParallel& parallel, torch::nn::Sequential& net, const torch::Tensor& x) {
                net->eval();
                net->forward(x);
                parallel.require_same_state();
                net->train();
                net->forward(x);
                parallel.synchronise();
                parallel.require_same_state();
                net->forward(x);
                parallel.backward(net->forward(x).square().mean(), 2);
                parallel.step();
                parallel.require_same_state();
              }),
              Each(StrEq("")));
}

}  // namespace
}  // namespace tandem::sync
