// Steps with no rows, several losses, and optimizers that ask for the loss several times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync {
namespace {

using ::testing::Each;
using ::testing::StrEq;

constexpr int kLineRanks = 3;

struct Line : torch::nn::Module {
  explicit Line(std::int64_t in = 3, std::int64_t out = 1) {
    layer = register_module("layer", torch::nn::Linear(in, out));
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& each : parameters()) each.copy_(torch::linspace(-0.4, 0.5, each.numel()).view_as(each));
  }
  torch::Tensor operator()(const torch::Tensor& x) { return layer(x); }
  torch::nn::Linear layer{nullptr};
};

// The rows of a rank in a step: rank + 1 of them.
torch::Tensor line_rows(int rank, int step) {
  return torch::linspace(-1 - step, 1 + rank, 3 * (rank + 1)).view({rank + 1, 3});
}
torch::Tensor line_rows_of_all(int step) {
  return torch::cat({line_rows(0, step), line_rows(1, step), line_rows(2, step)});
}

torch::Tensor line_loss(Line& net, const torch::Tensor& x) {
  return (torch::tanh(net(x)) - x.sum(1, true)).square().mean();
}

void expect_same_line(Line& net, Line& expected) {
  const auto named = net.named_parameters(), reference = expected.named_parameters();
  for (const auto& entry : named)
    EXPECT_TRUE(torch::allclose(entry.value(), reference[entry.key()], 1e-5, 1e-6)) << entry.key();
}

using LineWork = std::function<void(DataParallel&, Line&, int rank)>;

std::vector<std::string> run_lines(const LineWork& work, const DataParallelOptions& options) {
  return run_as_members(kLineRanks, [&](comm::Group& group) {
    const auto net = std::make_shared<Line>();
    DataParallel parallel(net, group, options);
    work(parallel, *net, group.rank());
  });
}

// One process, plain LibTorch: `loss` of a step, then SGD.
std::shared_ptr<Line> line_trained_alone(int steps, const std::function<torch::Tensor(Line&, int step)>& loss) {
  auto net = std::make_shared<Line>();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    loss(*net, step).backward();
    sgd.step();
  }
  return net;
}

TEST(DataParallelPassesTest, ARankWithoutRowsTakesPartAndGoesOnLater) {
  const auto expected = line_trained_alone(3, [](Line& net, int step) {
    return line_loss(net, step == 1 ? torch::cat({line_rows(0, 1), line_rows(2, 1)}) : line_rows_of_all(step));
  });
  for (const bool fused : {true, false}) {
    EXPECT_THAT(run_lines(
                    [&](DataParallel& parallel, Line& net, int rank) {
                      torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1));
                      for (int step = 0; step < 3; ++step) {
                        const bool has_rows = step != 1 || rank != 1;
                        torch::Tensor loss;
                        if (has_rows) loss = line_loss(net, line_rows(rank, step));
                        parallel.backward(loss, rank + 1);  // of an undefined loss: skip()
                        const StepReport report = fused ? parallel.step() : parallel.average();
                        EXPECT_EQ(report.weight, step == 1 ? 4 : 6);
                        if (!fused) sgd.step();
                      }
                      parallel.require_same_state();
                      expect_same_line(net, *expected);
                    },
                    fused ? with_sgd() : without_optimizer()),
                Each(StrEq("")));
  }
}

TEST(DataParallelPassesTest, TwoLossesOverTheSameRowsAreAdded) {
  const auto penalty = [](Line& net, const torch::Tensor& x) { return net(x).abs().mean(); };
  const auto expected = line_trained_alone(2, [&](Line& net, int step) {
    return line_loss(net, line_rows_of_all(step)) + penalty(net, line_rows_of_all(step)) +
           2 * penalty(net, line_rows_of_all(step));
  });
  EXPECT_THAT(run_lines(
                  [&](DataParallel& parallel, Line& net, int rank) {
                    for (int step = 0; step < 2; ++step) {
                      const torch::Tensor x = line_rows(rank, step);
                      parallel.accumulate(line_loss(net, x), rank + 1);
                      parallel.accumulate(penalty(net, x), {.counted = Pass::Counted::kSame});
                      parallel.backward(2 * penalty(net, x), {.counted = Pass::Counted::kSame});
                      EXPECT_EQ(parallel.step().weight, 6);
                    }
                    expect_same_line(net, *expected);
                  },
                  with_sgd()),
              Each(StrEq("")));
}

TEST(DataParallelPassesTest, AGraphMayBeKeptAndInputsChosen) {
  EXPECT_THAT(run_lines(
                  [](DataParallel& parallel, Line& net, int rank) {
                    const torch::Tensor loss = line_loss(net, line_rows(rank, 0));
                    parallel.accumulate(loss, {.rows = 1, .retain_graph = true, .inputs = {net.layer->bias}});
                    parallel.backward(loss, 1);
                    parallel.average();
                    const torch::Tensor bias = net.layer->bias.grad().clone(),
                                        weight = net.layer->weight.grad().clone();
                    parallel.backward(line_loss(net, line_rows(rank, 0)), 1);
                    parallel.average();
                    EXPECT_TRUE(torch::allclose(net.layer->bias.grad(), bias)) << "the mean of two equal ones";
                    EXPECT_TRUE(torch::allclose(net.layer->weight.grad(), 2 * weight)) << "the first had none";
                  },
                  without_optimizer()),
              Each(StrEq("")));
}

TEST(DataParallelPassesTest, AGradientPenaltyIsDifferentiatedTwice) {
  const auto penalised = [](Line& net, const torch::Tensor& rows) {
    const torch::Tensor x = rows.clone().requires_grad_(true), y = torch::tanh(net(x));
    const torch::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true).front();
    return y.mean() + slope.square().sum(1).mean();
  };
  const auto expected =
      line_trained_alone(2, [&](Line& net, int step) { return penalised(net, line_rows_of_all(step)); });
  EXPECT_THAT(run_lines(
                  [&](DataParallel& parallel, Line& net, int rank) {
                    for (int step = 0; step < 2; ++step) {
                      parallel.backward(penalised(net, line_rows(rank, step)), rank + 1);
                      parallel.step();
                    }
                    expect_same_line(net, *expected);
                  },
                  with_sgd()),
              Each(StrEq("")));
}

// The discriminator's passes reach the generator's parameters and the other way round, as in any GAN.
TEST(DataParallelPassesTest, TwoNetworksTrainAgainstEachOther) {
  struct Gan {
    std::shared_ptr<Line> maker = std::make_shared<Line>(3, 3), judge = std::make_shared<Line>(3, 1);
    torch::Tensor real_loss(const torch::Tensor& x) const { return torch::softplus(-(*judge)(x)).mean(); }
    torch::Tensor fake_loss(const torch::Tensor& z) const { return torch::softplus((*judge)((*maker)(z))).mean(); }
    torch::Tensor maker_loss(const torch::Tensor& z) const { return torch::softplus(-(*judge)((*maker)(z))).mean(); }
  };
  const Gan alone;
  torch::optim::SGD makes(alone.maker->parameters(), 0.1), judges(alone.judge->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor x = line_rows_of_all(step), z = line_rows_of_all(step + 1);
    judges.zero_grad();
    (alone.real_loss(x) + alone.fake_loss(z)).backward();
    judges.step();
    makes.zero_grad();
    alone.maker_loss(z).backward();
    makes.step();
  }
  EXPECT_THAT(run_as_members(kLineRanks,
                             [&](comm::Group& group) {
                               const Gan gan;
                               DataParallel maker(gan.maker, group, with_sgd()), judge(gan.judge, group, with_sgd());
                               for (int step = 0; step < 3; ++step) {
                                 const torch::Tensor x = line_rows(group.rank(), step),
                                                     z = line_rows(group.rank(), step + 1);
                                 judge.accumulate(gan.real_loss(x), group.rank() + 1);
                                 judge.backward(gan.fake_loss(z), {.counted = Pass::Counted::kSame});
                                 judge.step();
                                 maker.backward(gan.maker_loss(z), group.rank() + 1);
                                 maker.step();
                               }
                               expect_same_line(*gan.judge, *alone.judge);
                               expect_same_line(*gan.maker, *alone.maker);
                             }),
              Each(StrEq("")));
}

TEST(DataParallelPassesTest, LbfgsMakesTheStepsOfOneProcess) {
  const auto options = torch::optim::LBFGSOptions(0.5).max_iter(5).line_search_fn("strong_wolfe");
  const auto expected = std::make_shared<Line>();
  torch::optim::LBFGS alone(expected->parameters(), options);
  for (int step = 0; step < 3; ++step) {
    alone.step([&] {
      alone.zero_grad();
      torch::Tensor loss = line_loss(*expected, line_rows_of_all(0));
      loss.backward();
      return loss;
    });
  }
  EXPECT_THAT(run_lines(
                  [&](DataParallel& parallel, Line& net, int rank) {
                    torch::optim::LBFGS lbfgs(net.parameters(), options);
                    const auto closure = parallel.closure([&] { return line_loss(net, line_rows(rank, 0)); }, rank + 1);
                    for (int step = 0; step < 3; ++step) lbfgs.step(closure);
                    parallel.require_same_state();
                    for (const auto& entry : net.named_parameters()) {
                      EXPECT_TRUE(torch::allclose(entry.value(), expected->named_parameters()[entry.key()], 1e-3, 1e-4))
                          << entry.key();
                    }
                  },
                  without_optimizer()),
              Each(StrEq("")));
}

}  // namespace
}  // namespace tandem::sync
