// Training on a CUDA device: the same sums as on the CPU, and the same bits each time.
#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/device/device_set.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/state_hash.h"

namespace tandem {
namespace {

using Net = torch::nn::SequentialImpl;

// Some tests train on the CPU first, after which LibTorch's CUDA part can no longer be loaded (device_set.cc).
class CudaTrainingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { device::require_cuda(); }
};

constexpr std::int64_t kRows = 512, kMinibatchRows = 128;

struct Trained {
  std::string sha256;
  std::vector<at::Tensor> parameters;  // on the CPU
  double loss = 0;                     // of the last step
  bool moments_on_cpu = false;         // those that the first replica keeps a part of
};

// A small net fitted to the same data on any device.
Trained train(const std::string& devices, int shards, learner::Residence residence = learner::Residence::kDevice,
              const sync::StrategyOptions& strategy = sync::ReplicatedOptions{}) {
  torch::manual_seed(1);
  const at::Tensor x = at::randn({kRows, 6}), y = x.sum(1, true).tanh();
  const auto build = [](const sync::Placement&) {
    torch::manual_seed(2);
    return std::make_shared<Net>(torch::nn::Linear(6, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  };
  learner::TeamOptions options;
  options.optimizer = {model::AdamOptions{.lr = 1e-2}};
  options.strategy = sync::with_mean(strategy, {.max_grad_norm = 1.0});
  options.residence = residence;
  learner::ReplicaTeam team(sync::place_replicas(device::parse_device_set(devices), shards), options, build);
  Trained trained;
  team.run([&](learner::Member& me) {
    const auto loss = [&](const learner::ShardBatch& rows) {
      const at::Tensor predicted = dynamic_cast<Net&>(me.replica.module()).forward(rows["x"]);
      return learner::ShardLoss{at::mse_loss(predicted, rows["y"]), static_cast<double>(rows.rows)};
    };
    me.learner.batch().load({.columns = {{"x", x}, {"y", y}}}, kMinibatchRows, learner::Tail::kDrop);
    for (int pass = 0; pass < 5; ++pass) {
      me.learner.begin_pass(learner::Order::kShuffled);
      for (std::int64_t b = 0; b < kRows / kMinibatchRows; ++b) {
        const double now = me.learner.step(b, loss, 1.0, {}).step.loss;
        if (me.group.rank() == 0) trained.loss = now;
      }
    }
  });
  for (const model::PartialMoment& moment : team.member(0).replica.optimizer().partial_moments())
    trained.moments_on_cpu = moment.kept.is_cpu();
  const model::NamedTensors named = model::named_parameters_of(team.member(0).replica.module());
  trained.sha256 = model::bytes_sha256(named);
  for (const auto& [name, tensor] : named) trained.parameters.push_back(tensor.detach().cpu());
  return trained;
}

TEST_F(CudaTrainingTest, ReachesTheParametersOfTheCpu) {
  const Trained cpu = train("cpu:1", 2), cuda = train("cuda:0", 2);
  ASSERT_EQ(cpu.parameters.size(), cuda.parameters.size());
  for (std::size_t i = 0; i < cpu.parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(cpu.parameters[i], cuda.parameters[i], 1e-3, 1e-4)) << "parameter " << i;
  }
  EXPECT_NEAR(cpu.loss, cuda.loss, 1e-4);
}

TEST_F(CudaTrainingTest, HasTheSameBitsEachTime) { EXPECT_EQ(train("cuda:0", 2).sha256, train("cuda:0", 2).sha256); }

TEST_F(CudaTrainingTest, ABatchThatStaysOnTheHostGivesTheSameBits) {
  EXPECT_EQ(train("cuda:0", 2).sha256, train("cuda:0", 2, learner::Residence::kHost).sha256);
}

TEST_F(CudaTrainingTest, VariablesOnTheCpuReachTheParametersOfThoseOnTheDevice) {
  using sync::ParameterServerOptions;
  const Trained device = train("cuda:0", 2, learner::Residence::kDevice, ParameterServerOptions{});
  const Trained cpu = train("cuda:0", 2, learner::Residence::kDevice,
                            ParameterServerOptions{.mean = {}, .variables = sync::Variables::kOnCpu});
  EXPECT_FALSE(device.moments_on_cpu);
  EXPECT_TRUE(cpu.moments_on_cpu);
  ASSERT_EQ(cpu.parameters.size(), device.parameters.size());
  for (std::size_t i = 0; i < cpu.parameters.size(); ++i)
    EXPECT_TRUE(at::allclose(cpu.parameters[i], device.parameters[i], 1e-4, 1e-5)) << "parameter " << i;
}

// The gradient of a table whose rows are looked up many times each: sums that come about by atomic instructions.
TEST_F(CudaTrainingTest, SumsOfThreadsThatMeetHaveTheSameBitsEachTime) {
  (void)train("cuda:0", 1);  // a team on a CUDA device, which takes deterministic kernels
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  torch::manual_seed(3);
  const at::Tensor rows = at::randint(16, {200'000}, at::kLong).to(at::kCUDA),
                   values = at::randn({200'000, 8}).to(at::kCUDA);
  const auto sum = [&] { return at::zeros({16, 8}, values.options()).index_add(0, rows, values).cpu(); };
  const at::Tensor first = sum();
  for (int again = 0; again < 10; ++again) EXPECT_TRUE(at::equal(first, sum()));
}

TEST_F(CudaTrainingTest, ModelsLiveOnTheDevice) {
  const auto placements = sync::place_replicas(device::parse_device_set("cuda:0"), 1);
  learner::TeamOptions options;
  options.optimizer = {model::SgdOptions{}};
  learner::ReplicaTeam team(placements, options,
                            [](const sync::Placement&) { return std::make_shared<Net>(torch::nn::Linear(2, 2)); });
  for (const at::Tensor& parameter : team.member(0).replica.module().parameters()) EXPECT_TRUE(parameter.is_cuda());
}

}  // namespace
}  // namespace tandem
