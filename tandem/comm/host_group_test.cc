#include "tandem/comm/host_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/testing/met_groups.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::unique_key;
using shm::Voice;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

// Runs `work` as each rank, in a process of its own; what each says, and what it throws.
std::vector<std::string> run_host_ranks(int size, const std::function<void(Group&, const Voice&)>& work) {
  const std::string key = unique_key("host-group");
  ProcessWorld world(size, [&](int rank, const Voice& voice) {
    const auto group = join_host(rank, size, key);
    work(*group, voice);
    group->barrier(within(60s));  // nobody leaves while others still work
  });
  return world.outcomes();
}

class HostGroupSizes : public ::testing::TestWithParam<int> {};

TEST_P(HostGroupSizes, AllReduceGivesTheBitsOfTheLocalGroup) {
  EXPECT_THAT(run_host_ranks(GetParam(),
                             [](Group& group, const Voice& voice) {
                               voice.say(faults_of_sums(
                                   group, {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong},
                                   {0, 1, 31, 1000, 5003, 20'001}));
                             }),
              Each(StrEq("")));
}

TEST_P(HostGroupSizes, APartOfATensorIsReducedAndNothingElse) {
  EXPECT_THAT(run_host_ranks(GetParam(), [](Group& group, const Voice& voice) { voice.say(faults_of_parts(group)); }),
              Each(StrEq("")));
}

TEST_P(HostGroupSizes, GatherAndBroadcastKeepTheOrderOfRanks) {
  EXPECT_THAT(run_host_ranks(GetParam(),
                             [](Group& group, const Voice& voice) {
                               voice.say(faults_of_copies(group) + faults_of_shared_parts(group));
                             }),
              Each(StrEq("")));
}

TEST_P(HostGroupSizes, WhoIsMissingAtADeadlineIsAskedFirst) {
  EXPECT_THAT(
      run_host_ranks(GetParam(), [](Group& group, const Voice& voice) { voice.say(faults_of_questions(group)); }),
      Each(StrEq("")));
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostGroupSizes, ::testing::Values(1, 2, 3, 4, 5));

TEST(HostGroupTest, AllocatedTensorsAreZeroAndOutliveTheGroup) {
  EXPECT_THAT(run_host_ranks(1,
                             [](Group&, const Voice& voice) {
                               auto group = join_host(0, 1, unique_key("outlive"));
                               torch::Tensor flat = group->allocate(3000, torch::kFloat, torch::kCPU);
                               if (flat.count_nonzero().item<std::int64_t>() != 0) voice.say("not zero; ");
                               const torch::Tensor view = flat.narrow(0, 10, 20);
                               flat.reset();
                               group.reset();
                               view.fill_(3);
                               if (view.sum().item<float>() != 60) voice.say("not kept; ");
                             }),
              Each(StrEq("")));
}

TEST(HostGroupTest, AnotherDtypeIsNamedOnAllRanks) {
  const auto outcomes = run_host_ranks(3, [](Group& group, const Voice&) {
    const torch::Tensor flat = torch::zeros({8}, group.rank() == 1 ? torch::kDouble : torch::kFloat);
    group.start_all_reduce(flat).wait(within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("8 x Float"), HasSubstr("8 x Double"), HasSubstr("rank 1"))));
}

TEST(HostGroupTest, ADtypeThatCannotBeSummedIsRefused) {
  const auto outcomes = run_host_ranks(
      1, [](Group& group, const Voice&) { group.start_all_reduce(torch::zeros({8}, torch::kBool)).wait(within(60s)); });
  EXPECT_THAT(outcomes.front(), HasSubstr("got a tensor [8] of Bool; comm::all_reduce(group, tensor)"));
}

TEST(HostGroupTest, AKilledRankIsPeerLostOnAllOthers) {
  const auto outcomes = run_host_ranks(3, [](Group& group, const Voice& voice) {
    group.start_all_reduce(torch::zeros({2000})).wait(within(60s));
    if (group.rank() == 1) ::raise(SIGKILL);
    try {
      for (;;) group.start_all_reduce(torch::zeros({2000})).wait(within(24h));
    } catch (const PeerLost& lost) {
      voice.say(concat("lost ", lost.peer()));
      throw;
    }
  });
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("lost 1"), HasSubstr("all_reduce of 2000 x Float")));
  EXPECT_THAT(outcomes[2], AllOf(HasSubstr("lost 1"), HasSubstr("all_reduce of 2000 x Float")));
}

TEST(HostGroupTest, AWaitCanBeMadeToExpire) {
  EXPECT_THAT(run_host_ranks(2, [](Group& group, const Voice&) { expire_first_member(group); }),
              Each(HasSubstr("closed by rank 0: barrier #1: rank 0 waited for rank 1 until the deadline")));
}

TEST(HostGroupTest, AbortReachesTheOtherProcesses) {
  const auto outcomes = run_host_ranks(2, [](Group& group, const Voice&) {
    if (group.rank() == 1) group.abort("enough");
    for (;;) group.barrier(within(24h));
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("closed by rank 1: enough")));
}

}  // namespace
}  // namespace tandem::comm
