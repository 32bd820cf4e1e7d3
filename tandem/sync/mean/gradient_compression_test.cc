#include "tandem/sync/mean/gradient_compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/data_parallel.h"
#include "tandem/sync/mean/cast_compression.h"
#include "tandem/sync/mean/power_sgd_compression.h"
#include "tandem/sync/mean/top_k_compression.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

// Counts the bytes that a member hands over.
class CountingGroup final : public comm::ForwardingGroup {
 public:
  using ForwardingGroup::all_gather;
  using ForwardingGroup::ForwardingGroup;
  comm::Pending start_all_reduce(const at::Tensor& flat) override {
    bytes += static_cast<std::int64_t>(flat.nbytes());
    return ForwardingGroup::start_all_reduce(flat);
  }
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    bytes += static_cast<std::int64_t>(mine.nbytes());
    return ForwardingGroup::all_gather(mine, limits);
  }
  std::int64_t bytes = 0;
};

// 16 x 12 weights, a head that some losses reach, and one that none does.
struct CompressedNet : torch::nn::Module {
  CompressedNet() {
    body = register_module("body", torch::nn::Linear(12, 16));
    sometimes = register_module("sometimes", torch::nn::Linear(16, 8));
    never = register_module("never", torch::nn::Linear(16, 8));
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::linspace(-1, 1, parameter.numel()).view_as(parameter));
  }
  torch::nn::Linear body{nullptr}, sometimes{nullptr}, never{nullptr};
};

// Rank r has r + 1 rows; only rank 0's loss reaches `sometimes`.
torch::Tensor loss_of_rows(CompressedNet& net, int rank, int step) {
  const torch::Tensor x = torch::sin(torch::arange((rank + 1) * 12, torch::kFloat) * (step + 1) + rank).view({-1, 12});
  const torch::Tensor hidden = torch::tanh(net.body(x));
  torch::Tensor loss = hidden.square().mean();
  return rank == 0 ? loss + net.sometimes(hidden).square().mean() : loss;
}

struct Rank {
  DataParallel& parallel;
  CompressedNet& net;
  CountingGroup& group;
  int rank;
  void step(int number) const {
    parallel.backward(loss_of_rows(net, rank, number), rank + 1);
    parallel.step();
  }
};

DataParallelOptions with(MakeCompression compression) {
  return {.optimizer = {model::SgdOptions{.lr = 1}}, .compression = std::move(compression), .patience = 60s};
}

// Runs `work` as each rank, in a thread of its own; what() of each failure.
std::vector<std::string> run_compressed_ranks(const DataParallelOptions& options,
                                              const std::function<void(const Rank&)>& work) {
  auto members = comm::make_local_group(kRanks);
  std::vector<std::string> outcomes(kRanks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      CountingGroup group(std::move(members[static_cast<std::size_t>(rank)]));
      try {
        const auto net = std::make_shared<CompressedNet>();
        DataParallel parallel(net, group, options);
        work({parallel, *net, group, rank});
      } catch (const std::exception& error) {
        group.abort(error.what());
        outcomes[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

// A copy of what this rank remembers of a parameter.
torch::Tensor memory_of(DataParallel& parallel, const std::string& parameter) {
  for (const auto& [name, tensor] : parallel.compression_state()) {
    if (name == "memory." + parameter) return tensor.flatten().clone();
    if (name != "memory.0") continue;
    for (const model::ParameterSlot& slot : parallel.replica().parameters().buffers()[0].slots)
      if (slot.name == parameter) return tensor.narrow(0, slot.offset, slot.count).clone();
  }
  return {};
}

const auto kNoneFailed = ::testing::Each(::testing::StrEq(""));

// The values after so many steps without a compression.
std::vector<torch::Tensor> exact(int steps) {
  std::vector<torch::Tensor> values;
  EXPECT_THAT(run_compressed_ranks(with({}),
                                   [&](const Rank& me) {
                                     for (int step = 0; step < steps; ++step) me.step(step);
                                     if (me.rank != 0) return;
                                     for (const torch::Tensor& parameter : me.net.parameters())
                                       values.push_back(parameter.detach().clone());
                                   }),
              kNoneFailed);
  return values;
}

double largest_difference(const CompressedNet& net, const std::vector<torch::Tensor>& expected) {
  double most = 0;
  const auto parameters = net.parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    most = std::max(most, (parameters[i].detach() - expected[i]).abs().max().item<double>());
  return most;
}

// Steps of the size of the gradient: an element of the mean is below 1, where bfloat16 has steps of 2^-8.
TEST(GradientCompressionTest, ACastGivesTheMeanOverRowsToItsPrecisionAndTheSameBitsEverywhere) {
  const auto expected = exact(2);
  for (const auto& [dtype, precision] : {std::pair(at::kBFloat16, 2e-2), std::pair(at::kHalf, 2e-3)}) {
    EXPECT_THAT(run_compressed_ranks(with(cast_compression({.to = dtype})),
                                     [&, precision = precision](const Rank& me) {
                                       for (int step = 0; step < 2; ++step) me.step(step);
                                       me.parallel.require_same_state();
                                       EXPECT_LT(largest_difference(me.net, expected), precision);
                                       EXPECT_GT(largest_difference(me.net, expected), 0) << "nothing was cast";
                                     }),
                kNoneFailed);
  }
}

TEST(GradientCompressionTest, AllElementsOfTopKAreTheMeanOverRows) {
  const auto expected = exact(3);
  EXPECT_THAT(run_compressed_ranks(with(top_k_compression({.share = 1})),
                                   [&](const Rank& me) {
                                     for (int step = 0; step < 3; ++step) me.step(step);
                                     me.parallel.require_same_state();
                                     EXPECT_LT(largest_difference(me.net, expected), 1e-6);
                                   }),
              kNoneFailed);
}

TEST(GradientCompressionTest, PowerSgdBeforeItsStartIsTheMeanOverRows) {
  const auto expected = exact(2);
  EXPECT_THAT(run_compressed_ranks(with(power_sgd_compression({.rank = 1, .start_step = 2})),
                                   [&](const Rank& me) {
                                     for (int step = 0; step < 2; ++step) me.step(step);
                                     EXPECT_LT(largest_difference(me.net, expected), 1e-6);
                                     me.step(2);
                                     me.parallel.require_same_state();
                                   }),
              kNoneFailed);
}

// With gradients that stay the same, what is remembered must come through sooner or later: after many steps the sum of
// what was applied is that of the gradients, but for what is still remembered.
TEST(GradientCompressionTest, WhatIsAppliedAndWhatIsRememberedAreTogetherTheGradients) {
  for (const MakeCompression& compression :
       {top_k_compression({.share = 0.1}), power_sgd_compression({.rank = 1, .start_step = 0, .min_rate = 1})}) {
    EXPECT_THAT(
        run_compressed_ranks(
            with(compression),
            [&](const Rank& me) {
              const torch::Tensor direction = torch::sin(torch::arange(192, torch::kFloat).square()).view({16, 12});
              const torch::Tensor before = me.net.body->weight.detach().clone();
              for (int step = 0; step < 4; ++step) {
                // The mean over 6 rows is (1*1 + 2*2 + 3*3) / 6 times the direction.
                me.parallel.backward((me.net.body->weight * direction).sum() * (me.rank + 1), me.rank + 1);
                me.parallel.step();
              }
              me.parallel.require_same_state();
              const torch::Tensor memory = memory_of(me.parallel, "body.weight");
              me.group.start_all_reduce(memory).wait({.deadline = Deadline::after(60s), .stop = {}});
              EXPECT_GT(memory.abs().max().item<double>(), 0.1);
              const torch::Tensor applied = (before - me.net.body->weight.detach()).flatten();
              EXPECT_TRUE(torch::allclose(applied + memory, 4 * 14.0 / 6 * direction.flatten(), 1e-4, 1e-4));
            }),
        kNoneFailed);
  }
}

TEST(GradientCompressionTest, FewerBytesTravel) {
  // Flags and tally: 6 floats and 5 doubles. Elements: 16*12 + 16 + 2 * (8*16 + 8) = 480, at multiples of 64 bytes.
  constexpr std::int64_t kFlags = 6 * 4 + 5 * 8, kElements = 192 + 16 + 2 * (128 + 16);
  const std::vector<std::pair<MakeCompression, std::int64_t>> cases{
      {{}, kElements * 4},
      {cast_compression({}), kElements * 2},
      // Of body and sometimes: 19 + 2 + 13 + 1 elements of 8 bytes.
      {top_k_compression({.share = 0.1}), (19 + 2 + 13 + 1) * 8},
      // 28 numbers of each side of body, 24 of each head, and the three biases.
      {power_sgd_compression({.rank = 1, .start_step = 0}), (28 + 24 + 24 + 16 + 8 + 8) * 4},
  };
  for (const auto& [compression, bytes] : cases) {
    EXPECT_THAT(run_compressed_ranks(with(compression),
                                     [&, bytes = bytes](const Rank& me) {
                                       me.group.bytes = 0;
                                       me.step(0);
                                       EXPECT_EQ(me.group.bytes, kFlags + bytes);
                                     }),
                kNoneFailed);
  }
}

TEST(GradientCompressionTest, AParameterThatNoLossReachedIsLeftAloneAndItsMemoryWaits) {
  for (const MakeCompression& compression : {cast_compression({}), top_k_compression({.share = 0.1}),
                                             power_sgd_compression({.rank = 1, .start_step = 0, .min_rate = 1})}) {
    EXPECT_THAT(
        run_compressed_ranks(with(compression),
                             [&](const Rank& me) {
                               const torch::Tensor never = me.net.never->weight.detach().clone();
                               me.step(0);
                               const torch::Tensor sometimes = me.net.sometimes->weight.detach().clone();
                               const torch::Tensor memory = memory_of(me.parallel, "sometimes.weight");
                               me.parallel.backward(torch::tanh(me.net.body(torch::ones({1, 12}))).square().mean());
                               me.parallel.step();
                               if (memory.defined() && me.rank == 0) {
                                 EXPECT_GT(memory.abs().max().item<double>(), 0);
                               }
                               if (memory.defined()) {
                                 EXPECT_TRUE(torch::equal(memory_of(me.parallel, "sometimes.weight"), memory));
                               }
                               EXPECT_TRUE(torch::equal(me.net.never->weight, never));
                               EXPECT_TRUE(torch::equal(me.net.sometimes->weight, sometimes));
                             }),
        kNoneFailed);
  }
}

// The same three steps, once in one go and once by a second object that was given the first one's state.
TEST(GradientCompressionTest, AStateThatWasPutBackGoesOnWithTheSameBits) {
  for (const MakeCompression& compression :
       {top_k_compression({.share = 0.1}), power_sgd_compression({.rank = 2, .start_step = 1, .min_rate = 1})}) {
    EXPECT_THAT(run_compressed_ranks(with(compression),
                                     [&](const Rank& me) {
                                       for (int step = 0; step < 2; ++step) me.step(step);
                                       model::NamedTensors state, saved;
                                       for (const auto& [name, tensor] : me.parallel.replica().named_state())
                                         saved.emplace_back(name, tensor.clone());
                                       for (const auto& [name, tensor] : me.parallel.compression_state())
                                         state.emplace_back(name, tensor.clone());
                                       me.step(2);
                                       const auto net = std::make_shared<CompressedNet>();
                                       DataParallel second(net, me.group, with(compression));
                                       model::copy_named(saved, second.replica().named_state());
                                       second.replica().optimizer().state_changed();
                                       model::copy_named(state, second.compression_state());
                                       Rank{second, *net, me.group, me.rank}.step(2);
                                       EXPECT_TRUE(torch::equal(net->body->weight, me.net.body->weight));
                                     }),
                kNoneFailed);
  }
}

TEST(GradientCompressionTest, WhatIsTooLargeForHalfIsReportedWithItsTensorOnEveryRank) {
  const auto outcomes = run_compressed_ranks(with(cast_compression({.to = at::kHalf})), [](const Rank& me) {
    const double factor = me.rank == 1 ? 1e6 : 1;
    me.parallel.backward(loss_of_rows(me.net, me.rank, 0) + factor * me.net.body->bias.sum(), me.rank + 1);
    me.parallel.step();
  });
  EXPECT_THAT(outcomes,
              ::testing::Each(AllOf(HasSubstr("'body.bias'"), HasSubstr("is not finite after a cast to Half"))));
}

class Halved final : public GradientCompression {
 public:
  void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) override {
    for (GradientBucket& bucket : buckets) {
      group.start_all_reduce(bucket.values).wait(limits);
      bucket.values.mul_(0.5);
    }
  }
  [[nodiscard]] std::string describe() const override { return "halving"; }
};

TEST(GradientCompressionTest, OneOfOnesOwnTakesThePlaceOfTheSum) {
  const auto expected = exact(1);
  const MakeCompression make = [](std::span<const GradientBucket>, comm::Group&) { return std::make_unique<Halved>(); };
  EXPECT_THAT(run_compressed_ranks(with(make),
                                   [&](const Rank& me) {
                                     const torch::Tensor start = me.net.body->weight.detach().clone();
                                     me.step(0);
                                     EXPECT_TRUE(torch::allclose(2 * (me.net.body->weight - start), expected[0] - start,
                                                                 1e-4, 1e-6));
                                   }),
              kNoneFailed);
}

TEST(GradientCompressionTest, OptionsOutOfRangeAreNamed) {
  const auto outcome = [](MakeCompression compression) {
    return run_compressed_ranks(with(std::move(compression)), [](const Rank&) {}).front();
  };
  EXPECT_THAT(outcome(cast_compression({.to = at::kFloat})), HasSubstr("Float"));
  EXPECT_THAT(outcome(top_k_compression({.share = 0})), HasSubstr("(0, 1]"));
  EXPECT_THAT(outcome(power_sgd_compression({.rank = 0, .min_rate = 0})),
              AllOf(HasSubstr("rank"), HasSubstr("min_rate")));
}

}  // namespace
}  // namespace tandem::sync
