// What DataParallel::report() tells of steps: exact bytes and buckets, and times that fit together. Times are compared
// with each other, with the clock around them, and with sleeps, which last at least as long as they say.
#include "tandem/sync/data_parallel_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/sync/mean/cast_compression.h"
#include "tandem/sync/mean/top_k_compression.h"
#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;

// In the flat memory each dense parameter begins at a multiple of 64 bytes: 4 x 64 here, and a flag for each.
constexpr double kFlatBytes = 256, kFlagBytes = 16, kBufferBytes = 64, kTallyBytes = 40, kTotalBytes = 16;
// A sparse gradient travels as the number of its rows, their indices, and their values of three floats.
constexpr double table_bytes(int rows) { return 8 + rows * (8 + 12); }

struct Measured : torch::nn::Module {
  Measured() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 3).sparse(true)));
    first = register_module("first", torch::nn::Linear(3, 4));
    last = register_module("last", torch::nn::Linear(4, 1));
    register_buffer("seen", torch::zeros({16}));
  }
  // Of `rows` different words. The backward pass sleeps for as long as it is told.
  torch::Tensor loss(int rows, std::chrono::milliseconds sleep = 0ms) {
    const torch::Tensor hidden = torch::tanh(first(table(torch::arange(rows))));
    if (sleep > 0ms) hidden.register_hook([sleep](const torch::Tensor&) { std::this_thread::sleep_for(sleep); });
    return last(hidden).square().mean();
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear first{nullptr}, last{nullptr};
};

// Two layers of 1,442,432 bytes with their padding: a bucket each.
struct MeasuredWide : torch::nn::Module {
  MeasuredWide() {
    first = register_module("first", torch::nn::Linear(600, 600));
    last = register_module("last", torch::nn::Linear(600, 600));
  }
  torch::Tensor loss() { return last(torch::tanh(first(torch::ones({2, 600})))).square().mean(); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};
constexpr std::int64_t kWideBucket = std::int64_t{4} * (600 * 600 + 608);

enum class Link { kMemory, kNetwork };  // the group does not go on alone; it does

template <typename Net>
std::vector<std::string> run_measured(Link link, int size, const DataParallelOptions& options,
                                      const std::function<void(DataParallel&, Net&, int rank)>& work) {
  comm::Groups members = comm::make_local_group(size);
  if (link == Link::kNetwork) {
    for (auto& member : members) member = std::make_unique<comm::AloneGroup>(std::move(member));
  }
  return comm::run_all(std::move(members), [&](comm::Group& group) {
    const auto net = std::make_shared<Net>();
    DataParallel parallel(net, group, options);
    work(parallel, *net, group.rank());
  });
}

void expect_fits(const StepCosts& costs, double wall_seconds) {
  constexpr double kRounding = 1e-9;
  for (const double each : {costs.forward_seconds, costs.backward_seconds, costs.exposed_seconds, costs.hidden_seconds})
    EXPECT_GE(each, 0);
  EXPECT_NEAR(costs.communication_seconds, costs.exposed_seconds + costs.hidden_seconds, kRounding);
  EXPECT_LE(costs.communication_seconds, costs.seconds + kRounding);
  EXPECT_LE(costs.forward_seconds + costs.backward_seconds + costs.exposed_seconds, costs.seconds + kRounding);
  EXPECT_LE(costs.seconds, wall_seconds + kRounding);
}

void expect_nothing(const StepCosts& costs) {
  for (const double each : {costs.seconds, costs.forward_seconds, costs.backward_seconds, costs.communication_seconds,
                            costs.exposed_seconds, costs.hidden_seconds, costs.bytes})
    EXPECT_EQ(each, 0);
}

using SmallWork = std::function<void(DataParallel&, Measured&, int rank)>;

TEST(DataParallelReportTest, WithoutAStepThereIsTheModelAndNoMean) {
  const SmallWork look = [](DataParallel& parallel, Measured&, int) {
    const DataParallelReport report = parallel.report();
    EXPECT_EQ(report.steps, 0);
    expect_nothing(report.mean);
    expect_nothing(report.last);
    EXPECT_EQ(report.parameters, 5);
    EXPECT_EQ(report.elements, 6 * 3 + 3 * 4 + 4 + 4 + 1);
    EXPECT_EQ(report.parameter_bytes, 4 * report.elements);
    EXPECT_THAT(report.bucket_bytes, ElementsAre(256));
  };
  EXPECT_THAT(run_measured(Link::kMemory, 2, without_optimizer(), look), Each(StrEq("")));
}

TEST(DataParallelReportTest, FiguresAreTheMeansByNameAndNoneWithoutAStep) {
  DataParallelReport report{.steps = 2,
                            .mean = {.seconds = 1,
                                     .forward_seconds = 2,
                                     .backward_seconds = 3,
                                     .communication_seconds = 4,
                                     .exposed_seconds = 5,
                                     .hidden_seconds = 6,
                                     .bytes = 7},
                            .last = {.seconds = 9},
                            .bucket_bytes = {8, 8, 8}};
  using Figure = std::pair<std::string, double>;
  EXPECT_THAT(figures_of(report),
              ElementsAre(Figure("sync/steps", 2), Figure("sync/step_seconds", 1), Figure("sync/forward_seconds", 2),
                          Figure("sync/backward_seconds", 3), Figure("sync/communication_seconds", 4),
                          Figure("sync/exposed_seconds", 5), Figure("sync/hidden_seconds", 6), Figure("sync/bytes", 7),
                          Figure("sync/buckets", 3)));
  report.steps = 0;
  for (const auto& [name, value] : figures_of(report))
    EXPECT_EQ(std::isnan(value), name != "sync/steps" && name != "sync/buckets") << name;
}

TEST(DataParallelReportTest, BytesAreThoseOfEachStepsTensorsAndMeansAreSinceTheLastReport) {
  const SmallWork train = [](DataParallel& parallel, Measured& net, int) {
    const double dense = kFlatBytes + kFlagBytes + kBufferBytes + kTallyBytes;
    for (const int rows : {1, 5}) {
      parallel.backward(net.loss(rows));
      parallel.average();
    }
    DataParallelReport report = parallel.report();
    EXPECT_EQ(report.steps, 2);
    EXPECT_EQ(report.mean.bytes, dense + (table_bytes(1) + table_bytes(5)) / 2);
    EXPECT_EQ(report.last.bytes, dense + table_bytes(5));
    parallel.backward(net.loss(2));
    parallel.average();
    report = parallel.report();
    EXPECT_EQ(report.steps, 1);
    EXPECT_EQ(report.mean.bytes, dense + table_bytes(2));
    report = parallel.report();
    EXPECT_EQ(report.steps, 0);
    expect_nothing(report.mean);
    EXPECT_EQ(report.last.bytes, dense + table_bytes(2)) << "the last step is not forgotten";
  };
  EXPECT_THAT(run_measured(Link::kMemory, 2, without_optimizer(), train), Each(StrEq("")));
}

// Whole in shared memory, by buckets across a network: there early updates need the sum of all rows first, and rank 0
// tells the order of the buckets in the first step.
TEST(DataParallelReportTest, BucketsAndTheirBytesAreThoseThatTravel) {
  for (const Link link : {Link::kMemory, Link::kNetwork}) {
    const auto train = [&](DataParallel& parallel, MeasuredWide& net, int rank) {
      std::vector<double> bytes;
      for (int step = 0; step < 2; ++step) {
        parallel.backward(net.loss());
        parallel.step();
        bytes.push_back(parallel.report().last.bytes);
      }
      const double gradients = 2 * static_cast<double>(kWideBucket);
      if (link == Link::kMemory) {
        EXPECT_THAT(parallel.report().bucket_bytes, ElementsAre(2 * kWideBucket));
        EXPECT_THAT(bytes, Each(gradients + kFlagBytes + kTallyBytes));
      } else {
        EXPECT_THAT(parallel.report().bucket_bytes, ElementsAre(kWideBucket, kWideBucket));
        const double travels = gradients + kFlagBytes + kTallyBytes + kTotalBytes;
        EXPECT_THAT(bytes, ElementsAre(travels + (rank == 0 ? 2 * 8 : 0), travels));
      }
    };
    EXPECT_THAT(run_measured<MeasuredWide>(link, 2, with_sgd(), train), Each(StrEq("")));
  }
}

TEST(DataParallelReportTest, ACompressionSendsWhatItHandsToTheGroup) {
  const double beside = kFlagBytes + kBufferBytes + kTallyBytes + table_bytes(3);
  // Of 12, 4, 4 and 1 elements the larger half: each with a number of 32 bits.
  const std::vector<std::pair<MakeCompression, double>> all{{cast_compression({.to = at::kBFloat16}), kFlatBytes / 2},
                                                            {top_k_compression({.share = 0.5}), (6 + 2 + 2 + 1) * 8}};
  for (const Link link : {Link::kMemory, Link::kNetwork}) {
    for (const auto& [compression, bytes] : all) {
      const SmallWork train = [&, bytes = bytes](DataParallel& parallel, Measured& net, int) {
        parallel.backward(net.loss(3));
        std::this_thread::sleep_for(2ms);
        parallel.average();
        const DataParallelReport report = parallel.report();
        EXPECT_EQ(report.last.bytes, beside + bytes);
        EXPECT_EQ(report.last.hidden_seconds, 0) << "gradients travel when the passes are over";
        EXPECT_THAT(report.bucket_bytes, ElementsAre(256)) << "before the compression";
      };
      const DataParallelOptions options{.compression = compression, .patience = 20s};
      EXPECT_THAT(run_measured(link, 2, options, train), Each(StrEq("")));
      const auto look = [](DataParallel& parallel, MeasuredWide&, int) {
        EXPECT_THAT(parallel.report().bucket_bytes, ElementsAre(2 * kWideBucket)) << "no buckets across a network";
      };
      EXPECT_THAT(run_measured<MeasuredWide>(link, 2, options, look), Each(StrEq("")));
    }
  }
}

TEST(DataParallelReportTest, OneRankSendsNothing) {
  for (const Link link : {Link::kMemory, Link::kNetwork}) {
    const SmallWork train = [](DataParallel& parallel, Measured& net, int) {
      parallel.backward(net.loss(3));
      parallel.step();
      const DataParallelReport report = parallel.report();
      EXPECT_EQ(report.steps, 1);
      EXPECT_GT(report.last.backward_seconds, 0);
      EXPECT_EQ(report.last.bytes, 0);
      EXPECT_EQ(report.last.communication_seconds, 0);
      EXPECT_THAT(report.bucket_bytes, IsEmpty());
    };
    EXPECT_THAT(run_measured(link, 1, with_sgd(), train), Each(StrEq("")));
  }
}

// The sleep between the passes and average() hides sums that go on meanwhile. Other sums have not begun by then.
TEST(DataParallelReportTest, WhatGoesOnMeanwhileIsHiddenAndElseAllIsExposed) {
  for (const Link link : {Link::kMemory, Link::kNetwork}) {
    const SmallWork train = [&](DataParallel& parallel, Measured& net, int) {
      for (int step = 0; step < 2; ++step) {
        const Clock::time_point start = Clock::now();
        parallel.report();
        std::this_thread::sleep_for(2ms);
        parallel.backward(net.loss(2, /*sleep=*/4ms));
        std::this_thread::sleep_for(8ms);
        const double waited = parallel.average().wait_seconds;
        const DataParallelReport report = parallel.report();
        expect_fits(report.last, seconds_since(start));
        EXPECT_EQ(report.last.seconds, report.mean.seconds);
        EXPECT_GE(report.last.forward_seconds, 0.002);
        EXPECT_GE(report.last.backward_seconds, 0.004);
        EXPECT_GE(report.last.seconds, 0.014);
        EXPECT_EQ(report.last.exposed_seconds, waited);
        if (link == Link::kNetwork) {
          EXPECT_GE(report.last.hidden_seconds, 0.008);
          EXPECT_LE(report.last.hidden_seconds, report.last.seconds - report.last.forward_seconds);
        } else {
          EXPECT_EQ(report.last.hidden_seconds, 0);
        }
      }
    };
    EXPECT_THAT(run_measured(link, 2, without_optimizer(), train), Each(StrEq("")));
  }
}

TEST(DataParallelReportTest, PassesOfAStepAreAddedAndWhatPrecedesAReportIsInNone) {
  const SmallWork train = [](DataParallel& parallel, Measured& net, int) {
    parallel.backward(net.loss(3));
    parallel.average();
    std::this_thread::sleep_for(500ms);  // an evaluation
    const Clock::time_point start = Clock::now();
    parallel.report();
    for (int pass = 0; pass < 3; ++pass) {
      std::this_thread::sleep_for(2ms);
      const torch::Tensor loss = net.loss(3, /*sleep=*/3ms);
      pass < 2 ? parallel.accumulate(loss) : parallel.backward(loss);
      EXPECT_EQ(parallel.report().steps, 0) << "in the middle of a step";
    }
    parallel.average();
    const DataParallelReport report = parallel.report();
    expect_fits(report.mean, seconds_since(start));
    EXPECT_EQ(report.steps, 1);
    EXPECT_GE(report.mean.forward_seconds, 0.006) << "a report within the step takes nothing from it";
    EXPECT_GE(report.mean.backward_seconds, 0.009);
    EXPECT_LT(report.mean.forward_seconds, seconds_since(start) - 0.009) << "without the sleep before the report";
    EXPECT_EQ(report.mean.bytes, kFlatBytes + kFlagBytes + kBufferBytes + kTallyBytes + table_bytes(3))
        << "gradients travel once";
  };
  EXPECT_THAT(run_measured(Link::kMemory, 2, without_optimizer(), train), Each(StrEq("")));
}

// Rank 1 has no rows in the second step and no batches after it.
TEST(DataParallelReportTest, StepsWithoutRowsCount) {
  for (const Link link : {Link::kMemory, Link::kNetwork}) {
    const double dense =
        kFlatBytes + kFlagBytes + kBufferBytes + kTallyBytes + (link == Link::kNetwork ? kTotalBytes : 0);
    const SmallWork train = [&](DataParallel& parallel, Measured& net, int rank) {
      parallel.backward(net.loss(3));
      parallel.step();
      parallel.report();
      std::this_thread::sleep_for(2ms);
      rank == 0 ? parallel.backward(net.loss(2)) : parallel.skip();
      parallel.step();
      DataParallelReport report = parallel.report();
      EXPECT_EQ(report.steps, 1);
      EXPECT_GE(report.last.forward_seconds, 0.002);
      EXPECT_EQ(report.last.backward_seconds > 0, rank == 0);
      EXPECT_EQ(report.last.bytes, dense + table_bytes(rank == 0 ? 2 : 0));
      for (int step = 0; step < 2 && rank == 0; ++step) {
        parallel.backward(net.loss(1));
        parallel.step();
      }
      const Clock::time_point start = Clock::now();
      std::this_thread::sleep_for(4ms);
      parallel.finish();
      report = parallel.report();
      EXPECT_EQ(report.steps, 2) << "those of the others, too, but not the round in which none has a batch";
      EXPECT_EQ(report.mean.bytes, dense + table_bytes(rank == 0 ? 1 : 0));
      EXPECT_EQ(report.last.backward_seconds > 0, rank == 0);
      if (rank == 1) {
        expect_fits(report.last, seconds_since(start));
        EXPECT_GE(report.mean.forward_seconds, 0.002) << "what came before finish(), in one of two steps";
      }
      parallel.backward(net.loss(4));
      parallel.step();
      EXPECT_EQ(parallel.report().mean.bytes, dense + table_bytes(4)) << "after finish()";
      std::this_thread::sleep_for(50ms);
      const Clock::time_point end = Clock::now();
      parallel.finish();  // none has a further batch
      parallel.backward(net.loss(1));
      parallel.step();
      expect_fits(parallel.report().last, seconds_since(end));  // it began within finish()
    };
    EXPECT_THAT(run_measured(link, 2, with_sgd(), train), Each(StrEq("")));
  }
}

}  // namespace
}  // namespace tandem::sync
