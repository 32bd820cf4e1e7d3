#include "tandem/sync/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/model/autocast.h"
#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two layers, a table with sparse gradients, and a head that only some losses reach.
struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 4) {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 3).sparse(true)));
    first = register_module("first", torch::nn::Linear(3, width));
    last = register_module("last", torch::nn::Linear(width, 1));
    extra = register_module("extra", torch::nn::Linear(width, 1));
    const torch::NoGradGuard no_grad;
    double bound = 0.1;
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::linspace(-bound, bound + 0.05, parameter.numel()).view_as(parameter));
      bound += 0.05;
    }
  }
  torch::Tensor forward(const torch::Tensor& words) { return last(torch::tanh(first(table(words)))).squeeze(1); }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear first{nullptr}, last{nullptr}, extra{nullptr};
};

// Batch `step` of `rank`: rank + 1 words, of which each rank has others.
torch::Tensor words_of(int rank, int step) { return torch::arange(rank + 1).add(rank + step).remainder(6); }

torch::Tensor loss_of(Net& net, const torch::Tensor& words) {
  return (net.forward(words) - words.to(torch::kFloat)).square().mean();
}

using RankWork = std::function<void(DataParallel&, Net&, int rank)>;

// Runs `work` as each rank, in a thread of its own; what() of each failure.
std::vector<std::string> run_ranks(
    int size, const DataParallelOptions& options, const RankWork& work,
    const std::function<std::int64_t(int rank)>& width = [](int) { return 4; }) {
  return run_as_members(size, [&](comm::Group& group) {
    auto net = std::make_shared<Net>(width(group.rank()));
    DataParallel parallel(net, group, options);
    work(parallel, *net, group.rank());
  });
}

// One process over the batches of all ranks that have one in each step.
std::shared_ptr<Net> trained_alone(const std::vector<int>& steps_of_rank) {
  auto net = std::make_shared<Net>();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < *std::ranges::max_element(steps_of_rank); ++step) {
    std::vector<torch::Tensor> words;
    for (int rank = 0; rank < static_cast<int>(steps_of_rank.size()); ++rank) {
      if (step < steps_of_rank[static_cast<std::size_t>(rank)]) words.push_back(words_of(rank, step));
    }
    sgd.zero_grad();
    loss_of(*net, torch::cat(words)).backward();
    sgd.step();
  }
  return net;
}

void expect_close(Net& net, Net& expected, const std::string& what) {
  const auto named = net.named_parameters(), reference = expected.named_parameters();
  for (const auto& entry : named)
    EXPECT_TRUE(torch::allclose(entry.value(), reference[entry.key()], 1e-5, 1e-6)) << what << " " << entry.key();
}

const auto kNoFailures = ::testing::Each(::testing::StrEq(""));

TEST(DataParallelTest, StepsAreThoseOfOneProcessOverAllRows) {
  const auto expected = trained_alone({3, 3, 3});
  EXPECT_THAT(run_ranks(3, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          for (int step = 0; step < 3; ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            EXPECT_EQ(parallel.step().weight, 6);
                          }
                          parallel.require_same_state();
                          expect_close(net, *expected, "step()");
                        }),
              kNoFailures);
}

TEST(DataParallelTest, AnOptimizerOfOnesOwnSeesTheMeanInGrad) {
  const auto expected = trained_alone({3, 3});
  EXPECT_THAT(run_ranks(2, {.patience = 20s},
                        [&](DataParallel& parallel, Net& net, int rank) {
                          torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1));
                          for (int step = 0; step < 3; ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            parallel.average();
                            EXPECT_TRUE(net.table->weight.grad().is_sparse());
                            sgd.step();
                          }
                          expect_close(net, *expected, "average()");
                        }),
              kNoFailures);
}

TEST(DataParallelTest, BackwardPassesBeforeAStepAccumulate) {
  const auto expected = trained_alone({1, 1});
  EXPECT_THAT(run_ranks(2, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          std::vector<torch::Tensor> words = words_of(rank, 0).split(1);
                          const torch::Tensor last = words.back();
                          words.pop_back();
                          for (const torch::Tensor& word : words) parallel.accumulate(loss_of(net, word), 1);
                          parallel.backward(loss_of(net, last), 1);
                          EXPECT_EQ(parallel.step().weight, 3);
                          expect_close(net, *expected, "accumulated");
                        }),
              kNoFailures);
}

// Adam would move a parameter whose gradient is zero, once it has moments.
TEST(DataParallelTest, AParameterThatNoRankReachedHasNoGradientAndOneThatSomeReachedHasTheirShare) {
  for (const bool reached : {false, true}) {
    EXPECT_THAT(run_ranks(2, {.patience = 20s},
                          [&](DataParallel& parallel, Net& net, int rank) {
                            torch::Tensor loss = loss_of(net, words_of(rank, 0));
                            if (reached && rank == 1) loss = loss + net.extra->bias.square().sum();
                            parallel.backward(loss, rank + 1);
                            EXPECT_EQ(parallel.average().untouched, reached ? 1 : 2);
                            const torch::Tensor grad = net.extra->bias.grad();
                            EXPECT_EQ(grad.defined(), reached) << "rank " << rank;
                            if (!reached) return;
                            EXPECT_TRUE(torch::allclose(grad, 2 * net.extra->bias.detach() * 2 / 3)) << "rank " << rank;
                          }),
                kNoFailures);
  }
}

TEST(DataParallelTest, RanksWithFewerBatchesGoOnTakingPart) {
  const std::vector<int> steps{1, 3, 2};
  const auto expected = trained_alone(steps);
  EXPECT_THAT(run_ranks(3, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          for (int step = 0; step < steps[static_cast<std::size_t>(rank)]; ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            parallel.step();
                          }
                          parallel.finish();
                          parallel.require_same_state();
                          expect_close(net, *expected, "uneven");
                        }),
              kNoFailures);
}

TEST(DataParallelTest, WithAnOptimizerOfOnesOwnTheLastParametersAreTakenFromTheRankWithMostSteps) {
  const std::vector<int> steps{1, 3, 2};
  const auto expected = trained_alone(steps);
  EXPECT_THAT(run_ranks(3, {.patience = 20s},
                        [&](DataParallel& parallel, Net& net, int rank) {
                          torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1));
                          for (int step = 0; step < steps[static_cast<std::size_t>(rank)]; ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            parallel.average();
                            sgd.step();
                          }
                          parallel.finish();
                          expect_close(net, *expected, "uneven");
                          EXPECT_THROW(parallel.backward(loss_of(net, words_of(rank, 0))), RunError);
                        }),
              kNoFailures);
}

// 0.3 added three times and divided by three is not 0.3.
TEST(DataParallelTest, AScheduleStaysTheSameOnARankThatHasLeft) {
  EXPECT_THAT(run_ranks(4, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          for (int step = 0; step < (rank == 0 ? 1 : 4); ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            parallel.step(0.3);
                          }
                          parallel.finish();
                          parallel.require_same_state();
                        }),
              kNoFailures);
}

TEST(DataParallelTest, ARankThatDriftsIsNamedWithTheTensor) {
  const auto outcomes = run_ranks(3, with_sgd(), [&](DataParallel& parallel, Net& net, int rank) {
    if (rank == 2) {
      const torch::NoGradGuard no_grad;
      net.first->bias[1].add_(1e-6);
    }
    parallel.require_same_state();
  });
  EXPECT_THAT(outcomes,
              ::testing::Each(AllOf(HasSubstr("'parameters.first.bias'"), HasSubstr("of replica 2 differs"))));
}

DataParallelOptions checked_every(std::int64_t steps) {
  DataParallelOptions options = with_sgd();
  options.check_state_every = steps;
  return options;
}

void train(DataParallel& parallel, Net& net, int rank, int steps) {
  for (int step = 0; step < steps; ++step) {
    parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
    parallel.step();
  }
}

TEST(DataParallelTest, ARankThatDriftsIsFoundByTheNextStepThatLooks) {
  const auto outcomes = run_ranks(3, checked_every(3), [&](DataParallel& parallel, Net& net, int rank) {
    if (rank == 1) {
      const torch::NoGradGuard no_grad;
      net.first->bias[1].add_(1e-6);
    }
    EXPECT_NO_THROW(train(parallel, net, rank, 2));
    train(parallel, net, rank, 1);
  });
  EXPECT_THAT(outcomes,
              ::testing::Each(AllOf(HasSubstr("'parameters.first.bias'"), HasSubstr("of replica 1 differs"))));
}

TEST(DataParallelTest, ARankThatHasFinishedLooksWithTheOthers) {
  EXPECT_THAT(run_ranks(3, checked_every(1),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          train(parallel, net, rank, 2 * rank);
                          parallel.finish();
                        }),
              kNoFailures);
}

TEST(DataParallelTest, WhatARankHoldsThatHasFinishedWithAnOptimizerOfItsOwnIsNotLookedAt) {
  DataParallelOptions options = checked_every(1);
  options.optimizer.clear();
  EXPECT_THAT(run_ranks(3, options,
                        [&](DataParallel& parallel, Net& net, int rank) {
                          torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1));
                          for (int step = 0; step < 1 + rank; ++step) {
                            parallel.backward(loss_of(net, words_of(rank, step)), rank + 1);
                            parallel.average();
                            sgd.step();
                          }
                          parallel.finish();
                        }),
              kNoFailures);
}

TEST(DataParallelTest, RanksThatWereSynchronisedHoldWhatRankZeroHolds) {
  EXPECT_THAT(run_ranks(3, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          train(parallel, net, rank, 1);
                          const torch::NoGradGuard no_grad;
                          net.first->bias.fill_(1 + rank);
                          parallel.synchronise();
                          EXPECT_TRUE(net.first->bias.eq(1).all().item<bool>());
                          parallel.require_same_state();
                        }),
              kNoFailures);
}

TEST(DataParallelTest, RanksThatAreNotComparedMayDrift) {
  EXPECT_THAT(run_ranks(2, checked_every(0),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          {
                            const torch::NoGradGuard no_grad;
                            net.first->bias[1].add_(1e-6 * rank);
                          }
                          train(parallel, net, rank, 3);
                          parallel.synchronise();
                          parallel.require_same_state();
                        }),
              kNoFailures);
}

TEST(DataParallelTest, ANegativeCountOfStepsIsRefused) {
  EXPECT_THAT(run_ranks(1, checked_every(-1), [](DataParallel&, Net&, int) {}),
              ::testing::Each(HasSubstr("check_state_every is -1")));
}

TEST(DataParallelTest, DifferentModelsAreRefusedWithShapesOfEachRank) {
  const auto outcomes = run_ranks(
      2, with_sgd(), [](DataParallel&, Net&, int) {}, [](int rank) { return 4 + rank; });
  EXPECT_THAT(outcomes, ::testing::Each(AllOf(HasSubstr("first.weight"), HasSubstr("[4, 3]"), HasSubstr("[5, 3]"))));
}

TEST(DataParallelTest, ALossThatIsNoScalarIsRefused) {
  const auto outcomes = run_ranks(1, with_sgd(), [](DataParallel& parallel, Net& net, int) {
    parallel.backward(net.forward(torch::arange(3)), 3);
  });
  EXPECT_THAT(outcomes.front(), HasSubstr("a scalar with a gradient"));
}

TEST(DataParallelTest, AfterAPassThatFailedEveryCallSaysSo) {
  const auto outcomes = run_ranks(1, with_sgd(), [](DataParallel& parallel, Net& net, int) {
    const torch::Tensor loss = loss_of(net, words_of(0, 0));
    (void)torch::autograd::grad({loss}, {net.last->weight});
    EXPECT_ANY_THROW(parallel.backward(loss, 1)) << "its graph is gone";
    const auto says_so = ::testing::ThrowsMessage<RunError>(HasSubstr("a backward pass of this step has failed"));
    EXPECT_THAT([&] { parallel.step(); }, says_so);
    EXPECT_THAT([&] { parallel.average(); }, says_so);
    EXPECT_THAT([&] { parallel.finish(); }, says_so);
    EXPECT_THAT([&] { parallel.backward(loss_of(net, words_of(0, 0)), 1); }, says_so);
    EXPECT_THAT([&] { parallel.accumulate(loss_of(net, words_of(0, 0)), 1); }, says_so);
  });
  EXPECT_THAT(outcomes, kNoFailures);
}

TEST(DataParallelTest, ForwardPassesInBfloat16GiveGradientsInFloatAndTheSameBitsEverywhere) {
  const auto expected = trained_alone({3, 3});
  EXPECT_THAT(run_ranks(2, with_sgd(),
                        [&](DataParallel& parallel, Net& net, int rank) {
                          for (int step = 0; step < 3; ++step) {
                            torch::Tensor loss;
                            {
                              const model::Autocast autocast({});
                              EXPECT_EQ(net.forward(words_of(rank, step)).scalar_type(), torch::kBFloat16);
                              loss = loss_of(net, words_of(rank, step));
                            }
                            parallel.backward(loss, rank + 1);
                            EXPECT_EQ(net.first->weight.grad().scalar_type(), torch::kFloat);
                            parallel.step();
                          }
                          parallel.require_same_state();
                          const torch::Tensor &mine = net.first->weight, &theirs = expected->first->weight;
                          EXPECT_TRUE(torch::allclose(mine, theirs, 1e-2, 1e-2));
                          EXPECT_FALSE(torch::allclose(mine, theirs, 1e-6, 1e-7)) << "the shorter type shows";
                        }),
              kNoFailures);
}

struct Normed : torch::nn::Module {
  Normed() { norm = register_module("norm", torch::nn::BatchNorm1d(2)); }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(DataParallelTest, BuffersAreTheMeanOverTheRanksThatOffered) {
  const auto groups = comm::make_local_group(3);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&groups, rank] {
      auto net = std::make_shared<Normed>();
      DataParallel parallel(net, *groups[static_cast<std::size_t>(rank)], with_sgd());
      if (rank > 0) {
        const torch::Tensor rows = torch::arange(8, torch::kFloat).reshape({4, 2}) * rank;
        parallel.backward(net->norm(rows).sum(), 4);
        parallel.step();
      }
      parallel.finish();
      // Column 0 has the means 3 and 6; a tenth of each goes into the running mean.
      EXPECT_NEAR(net->norm->running_mean[0].item<float>(), 0.45, 1e-6) << "rank " << rank;
      EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 0) << "rank 0's, which had no batch";
    });
  }
}

}  // namespace
}  // namespace tandem::sync
