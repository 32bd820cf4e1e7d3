#include "tandem/comm/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tandem/base/error.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/testing/member_threads.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

constexpr int kMembers = 3;

// Compares each reduction of `mine(rank)` with what one process makes of all of them.
std::string reduce_faults_of(Group& group, const std::function<torch::Tensor(int rank)>& mine, ReduceOp op,
                             const std::function<torch::Tensor(const torch::Tensor& stacked)>& expected) {
  std::vector<torch::Tensor> all;
  for (int rank = 0; rank < group.size(); ++rank) all.push_back(mine(rank));
  const torch::Tensor tensor = mine(group.rank());
  all_reduce(group, tensor, op);
  const torch::Tensor right = expected(torch::stack(all)).to(tensor.dtype());
  return tensor.equal(right) ? ""
                             : concat("op ", static_cast<int>(op), " of ", c10::toString(tensor.scalar_type()), "; ");
}

std::string faults_of_all_kinds(Group& group) {
  std::string faults;
  const auto numbers = [](at::ScalarType dtype) {
    return [dtype](int rank) { return ((torch::arange(24) * 7 + rank * 5) % 11).view({2, 3, 4}).to(dtype); };
  };
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kLong, torch::kInt, torch::kShort,
                           torch::kChar, torch::kByte}) {
    faults += reduce_faults_of(group, numbers(dtype), ReduceOp::kSum,
                               [](auto& all) { return all.to(torch::kDouble).sum(0); });
    faults += reduce_faults_of(group, numbers(dtype), ReduceOp::kMin, [](auto& all) { return all.amin(0); });
    faults += reduce_faults_of(group, numbers(dtype), ReduceOp::kMax, [](auto& all) { return all.amax(0); });
  }
  faults += reduce_faults_of(group, numbers(torch::kDouble), ReduceOp::kMean,
                             [](auto& all) { return all.sum(0) / all.size(0); });
  const auto strided = [](int rank) { return torch::arange(12, torch::kFloat).view({3, 4}).add(rank).t(); };
  faults += reduce_faults_of(group, strided, ReduceOp::kSum, [](auto& all) { return all.sum(0); });
  const auto scalar = [](int rank) { return torch::tensor(1.5f + static_cast<float>(rank)); };
  faults += reduce_faults_of(group, scalar, ReduceOp::kSum, [](auto& all) { return all.sum(0); });
  const auto none = [](int) { return torch::zeros({0, 3}); };
  faults += reduce_faults_of(group, none, ReduceOp::kMax, [](auto& all) { return all.sum(0); });
  const auto flags = [](int rank) { return torch::arange(6).eq(rank); };
  faults += reduce_faults_of(group, flags, ReduceOp::kMax, [](auto& all) { return all.any(0); });
  faults += reduce_faults_of(group, flags, ReduceOp::kMin, [](auto& all) { return all.all(0); });
  return faults;
}

std::string faults_of_copies_and_numbers(Group& group) {
  std::string faults;
  const double me = group.rank();
  for (const auto dtype : {torch::kFloat, torch::kBool, torch::kInt, torch::kHalf}) {
    const torch::Tensor mine = (torch::arange(6) * (group.rank() + 1)).view({2, 3}).to(dtype).t();
    broadcast(group, mine, 1);
    if (!mine.equal((torch::arange(6) * 2).view({2, 3}).to(dtype).t()))
      faults += concat(c10::toString(dtype), " differs; ");
  }
  double sum = 0, rows = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    sum += rank * (10.0 + rank);
    rows += rank;
  }
  if (mean(group, 10 + me, me) != sum / rows) faults += "mean over rows; ";
  if (mean(group, me == 0 ? std::numeric_limits<double>::quiet_NaN() : 3, me) != 3) faults += "mean with 0 rows; ";
  if (!any(group, group.rank() == 1) || any(group, false)) faults += "any; ";
  return faults;
}

TEST(CollectivesTest, ReductionsTakeAnyShapeStridesAndDtype) {
  EXPECT_THAT(run_as_members(kMembers,
                             [](Group& group) {
                               EXPECT_EQ(faults_of_all_kinds(group), "");
                               EXPECT_EQ(faults_of_copies_and_numbers(group), "");
                             }),
              Each(StrEq("")));
}

TEST(CollectivesTest, RanksThatAreProcessesGetTheSame) {
  const std::string key = shm::unique_key("collectives");
  shm::ProcessWorld world(kMembers, [&](int rank, const shm::Voice& voice) {
    const auto group = make_host_group({.rank = rank, .size = kMembers, .key = key, .limits = within(60s)});
    voice.say(faults_of_all_kinds(*group) + faults_of_copies_and_numbers(*group));
    group->barrier(within(60s));
  });
  EXPECT_THAT(world.outcomes(), Each(StrEq("")));
}

TEST(CollectivesTest, ANaNOfOneMemberIsNaNForAll) {
  EXPECT_THAT(
      run_as_members(kMembers,
                     [](Group& group) {
                       for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) {
                         const torch::Tensor mine = torch::ones({2});
                         if (group.rank() == 1) mine[0] = std::nan("");
                         all_reduce(group, mine, op);
                         EXPECT_TRUE(mine[0].isnan().item<bool>());
                         EXPECT_FALSE(mine[1].isnan().item<bool>());
                       }
                     }),
      Each(StrEq("")));
}

TEST(CollectivesTest, ShapesThatDifferAreNamed) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    EXPECT_THAT(
        run_as_members(kMembers, [op](Group& group) { all_reduce(group, torch::ones({2 + group.rank()}), op); }),
        ::testing::Contains(AllOf(HasSubstr("2"), HasSubstr("3"))));
  }
}

std::string refusal_of(const std::function<void(Group&)>& call) {
  const std::unique_ptr<Group> group = std::move(make_local_group(1).front());
  try {
    call(*group);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CollectivesTest, WhatCannotBeReducedIsTheUsersMistakeAndSaysWhatToWrite) {
  const auto reduce = [](const torch::Tensor& tensor, ReduceOp op) {
    return refusal_of([&](Group& group) { all_reduce(group, tensor, op); });
  };
  EXPECT_THAT(reduce(torch::ones({2}, torch::kBool), ReduceOp::kSum), HasSubstr("ReduceOp::kMax (or) or kMin (and)"));
  EXPECT_THAT(reduce(torch::ones({2}, torch::kInt), ReduceOp::kMean), HasSubstr("convert it to float or double first"));
  EXPECT_THAT(reduce(torch::ones({2}, torch::kComplexFloat), ReduceOp::kSum), HasSubstr("a sum of ComplexFloat"));
  EXPECT_THAT(reduce({}, ReduceOp::kSum), HasSubstr("takes a dense tensor"));
  EXPECT_THAT(reduce(torch::eye(3).to_sparse(), ReduceOp::kSum), HasSubstr("got a sparse one"));
  EXPECT_THAT(refusal_of([](Group& group) { (void)mean(group, 1, -1); }), HasSubstr("a mean over -1 rows"));
  EXPECT_THAT(refusal_of([](Group& group) { (void)mean(group, 1, 0); }), HasSubstr("a mean over no rows"));
  EXPECT_THAT(refusal_of([](Group& group) { broadcast(group, torch::ones(1), 2); }),
              HasSubstr("a broadcast from rank 2 of a group of 1"));
}

TEST(CollectivesTest, WhatAGroupItselfDoesNotTakeNamesTheFunctionThatDoes) {
  const auto started = [](const torch::Tensor& tensor) {
    return refusal_of([&](Group& group) { group.start_all_reduce(tensor).wait(within(1s)); });
  };
  const auto named = HasSubstr("comm::all_reduce(group, tensor)");
  EXPECT_THAT(started(torch::ones({})), AllOf(named, HasSubstr("a tensor [] of Float")));
  EXPECT_THAT(started(torch::ones({2, 2})), AllOf(named, HasSubstr("a tensor [2, 2] of Float")));
  EXPECT_THAT(started(torch::ones({4, 2}).select(1, 0)), AllOf(named, HasSubstr("a strided tensor [4]")));
  EXPECT_THAT(started(torch::ones({2}, torch::kBool)), AllOf(named, HasSubstr("[2] of Bool")));
  EXPECT_THAT(started({}), HasSubstr("an undefined tensor"));
  EXPECT_THAT(refusal_of([](Group& group) {
                group.broadcast(torch::ones({2, 2}).t(), 0, within(1s));
              }),
              HasSubstr("comm::broadcast(group, tensor)"));
  EXPECT_THAT(refusal_of([](Group& group) {
                std::vector<double> all(3);
                group.all_gather(std::vector<double>(2), all, within(1s));
              }),
              HasSubstr("give room for 2"));
  EXPECT_THAT(refusal_of([](Group& group) {
                std::vector<Pending> pending;
                pending.push_back(group.start_all_reduce(torch::ones({1})));
                pending.push_back(group.start_all_reduce(torch::ones({1})));
                pending.back().wait(within(1s));
              }),
              HasSubstr("in the order of their start"));
}

// As a member of a trainer, which opens it later.
TEST(CollectivesTest, AWorldMayBeAMember) {
  struct Trainer {
    World world;
  };
  Trainer trainer;
  EXPECT_EQ(trainer.world.group, nullptr);
  trainer.world = open_world({}, {});
  EXPECT_EQ(trainer.world.group->size(), 1);
}

}  // namespace
}  // namespace tandem::comm
