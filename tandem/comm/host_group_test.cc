#include "tandem/comm/host_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/local_group.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::unique_key;
using shm::Voice;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StrEq;

Limits within(Clock::duration span) { return {.deadline = Deadline::after(span), .stop = {}}; }

std::unique_ptr<Group> join(int rank, int size, const std::string& key) {
  return make_host_group({.rank = rank, .size = size, .key = key, .limits = within(60s)});
}

// Runs `work` as each rank, in a process of its own; what each says, and what it throws.
std::vector<std::string> run_ranks(int size, const std::function<void(Group&, const Voice&)>& work) {
  const std::string key = unique_key("host-group");
  ProcessWorld world(size, [&](int rank, const Voice& voice) {
    const auto group = join(rank, size, key);
    work(*group, voice);
    group->barrier(within(60s));  // nobody leaves while others still work
  });
  return world.outcomes();
}

// Values whose sum depends on the association.
torch::Tensor stamped(int rank, std::int64_t count, torch::ScalarType dtype) {
  return torch::arange(count, torch::kDouble).mul(0.1).add(1.0 / (rank + 3)).mul(std::pow(10.0, rank % 4)).to(dtype);
}

torch::Tensor sum_of_local_group(int size, std::int64_t count, torch::ScalarType dtype) {
  const auto members = make_local_group(size);
  std::vector<torch::Tensor> flats;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) flats.push_back(stamped(rank, count, dtype));
  for (const auto& member : members) {
    threads.emplace_back([&flats, member = member.get()] {
      member->start_all_reduce(flats[static_cast<std::size_t>(member->rank())]).wait(within(60s));
    });
  }
  threads.clear();
  return flats.front();
}

class HostGroupSizes : public testing::TestWithParam<int> {};

TEST_P(HostGroupSizes, AllReduceGivesTheBitsOfTheLocalGroup) {
  const int size = GetParam();
  EXPECT_THAT(
      run_ranks(
          size,
          [&](Group& group, const Voice& voice) {
            for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong}) {
              for (const std::int64_t count : {0, 1, 31, 1000, 5003, 20'001}) {
                const torch::Tensor expected = sum_of_local_group(size, count, dtype);
                const torch::Tensor shared = group.allocate(count, dtype, torch::kCPU);
                shared.copy_(stamped(group.rank(), count, dtype));
                const torch::Tensor own = stamped(group.rank(), count, dtype);
                Pending first = group.start_all_reduce(shared);
                Pending second = group.start_all_reduce(own);
                first.wait(within(60s));
                second.wait(within(60s));
                if (!torch::equal(shared, expected) || !torch::equal(own, expected)) {
                  voice.say(concat(count, " x ", c10::toString(dtype), " differ; "));
                }
              }
            }
          }),
      Each(StrEq("")));
}

TEST_P(HostGroupSizes, APartOfATensorIsReducedAndNothingElse) {
  EXPECT_THAT(run_ranks(GetParam(),
                        [](Group& group, const Voice& voice) {
                          const torch::Tensor flat = group.allocate(10'000, torch::kFloat, torch::kCPU);
                          flat.fill_(1);
                          group.start_all_reduce(flat.narrow(0, 1001, 7777)).wait(within(60s));
                          torch::Tensor expected = torch::ones({10'000});
                          expected.narrow(0, 1001, 7777).fill_(group.size());
                          if (!torch::equal(flat, expected)) voice.say("differs");
                        }),
              Each(StrEq("")));
}

TEST_P(HostGroupSizes, GatherAndBroadcastKeepTheOrderOfRanks) {
  EXPECT_THAT(run_ranks(GetParam(),
                        [](Group& group, const Voice& voice) {
                          const auto rows = [](int rank) { return torch::full({1000 * rank, 3}, rank, torch::kLong); };
                          const std::vector<torch::Tensor> all = group.all_gather(rows(group.rank()), within(60s));
                          std::vector<double> numbers(static_cast<std::size_t>(group.size()));
                          const double mine = group.rank();
                          group.all_gather(std::span(&mine, 1), numbers, within(60s));
                          for (int rank = 0; rank < group.size(); ++rank) {
                            const auto index = static_cast<std::size_t>(rank);
                            if (!torch::equal(all[index], rows(rank))) voice.say("another tensor; ");
                            if (numbers[index] != rank) voice.say("another number; ");
                          }
                          for (const std::int64_t count : {0, 3, 30'000}) {
                            const torch::Tensor value = torch::full({count}, group.rank(), torch::kBool);
                            group.broadcast(value, group.size() - 1, within(60s));
                            if (!torch::equal(value, torch::full({count}, group.size() - 1, torch::kBool)))
                              voice.say("another value; ");
                          }
                        }),
              Each(StrEq("")));
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostGroupSizes, testing::Values(1, 2, 3, 4, 5));

TEST(HostGroupTest, AllocatedTensorsAreZeroAndOutliveTheGroup) {
  EXPECT_THAT(run_ranks(1,
                        [](Group&, const Voice& voice) {
                          auto group = join(0, 1, unique_key("outlive"));
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
  const auto outcomes = run_ranks(3, [](Group& group, const Voice&) {
    const torch::Tensor flat = torch::zeros({8}, group.rank() == 1 ? torch::kDouble : torch::kFloat);
    group.start_all_reduce(flat).wait(within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("8 x Float"), HasSubstr("8 x Double"), HasSubstr("rank 1"))));
}

TEST(HostGroupTest, ADtypeThatCannotBeSummedIsRefused) {
  const auto outcomes = run_ranks(
      1, [](Group& group, const Voice&) { group.start_all_reduce(torch::zeros({8}, torch::kBool)).wait(within(60s)); });
  EXPECT_THAT(outcomes.front(), HasSubstr("Bool cannot be summed"));
}

TEST(HostGroupTest, AKilledRankIsPeerLostOnAllOthers) {
  const auto outcomes = run_ranks(3, [](Group& group, const Voice& voice) {
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

TEST(HostGroupTest, AbortReachesTheOtherProcesses) {
  const auto outcomes = run_ranks(2, [](Group& group, const Voice&) {
    if (group.rank() == 1) group.abort("enough");
    for (;;) group.barrier(within(24h));
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("closed by rank 1: enough")));
}

}  // namespace
}  // namespace tandem::comm
