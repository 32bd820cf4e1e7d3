#include "tandem/shm/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/cores.h"
#include "tandem/shm/testing/thread_world.h"
#include "tandem/shm/testing/tree_sum.h"

namespace tandem::shm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> run_members(int size, const std::function<void(Member&)>& work) {
  return run_threads(size, [&](Meeting meeting) {
    Member member(std::move(meeting));
    work(member);
  });
}

template <typename T>
void expect_tree_sum(Member& member, T* data, std::int64_t count, const Element& element) {
  const std::vector<T> mine = stamped<T>(member.rank(), count);
  std::copy(mine.begin(), mine.end(), data);
  member.finish_all_reduce(member.start_all_reduce(data, count, element), within(60s));
  const std::vector<T> expected = sum_of_stamped<T>(member.size(), count);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data))
      << "rank " << member.rank() << " of " << member.size() << ", " << count << " x " << element.name;
}

struct Crew {
  int size;
  Cores cores;
};

class MemberSizes : public ::testing::TestWithParam<Crew> {
 protected:
  // What this thread may use, its ranks may.
  void SetUp() override { bind_to(GetParam().cores); }
  void TearDown() override { bind_to(before_); }

 private:
  const cpu_set_t before_ = own_cores();
};

// Below and above what goes into a slot, and not divisible by anything.
constexpr std::int64_t kCounts[] = {0, 1, 31, 128, 256, 257, 5003, 100'001};

TEST_P(MemberSizes, AllReduceInTheGroupsMemoryGivesTheBitsOfTheTree) {
  EXPECT_THAT(run_members(GetParam().size,
                          [](Member& member) {
                            for (const std::int64_t count : kCounts) {
                              const auto memory = member.allocate(8 * static_cast<std::uint64_t>(count));
                              expect_tree_sum(member, reinterpret_cast<float*>(memory.get()), count, kFloat32);
                              expect_tree_sum(member, reinterpret_cast<double*>(memory.get()), count, kFloat64);
                            }
                          }),
              Each(IsEmpty()));
}

TEST_P(MemberSizes, AllReduceInOwnMemoryGivesTheBitsOfTheTree) {
  EXPECT_THAT(run_members(GetParam().size,
                          [](Member& member) {
                            for (const std::int64_t count : kCounts) {
                              std::vector<float> data(static_cast<std::size_t>(count));
                              expect_tree_sum(member, data.data(), count, kFloat32);
                            }
                          }),
              Each(IsEmpty()));
}

TEST_P(MemberSizes, ManyMayBeUnderWay) {
  EXPECT_THAT(run_members(GetParam().size,
                          [](Member& member) {
                            for (int round = 0; round < 5; ++round) {
                              std::vector<std::vector<float>> data;
                              std::vector<std::uint64_t> tickets;
                              for (std::uint64_t i = 0; i < kDepth; ++i) {
                                data.push_back(stamped<float>(member.rank(), 200 + static_cast<std::int64_t>(i)));
                                tickets.push_back(member.start_all_reduce(
                                    data.back().data(), static_cast<std::int64_t>(data.back().size()), kFloat32));
                              }
                              for (const std::uint64_t ticket : tickets) member.finish_all_reduce(ticket, within(60s));
                              for (const auto& sum : data) {
                                EXPECT_EQ(sum, sum_of_stamped<float>(member.size(), std::ssize(sum)));
                              }
                            }
                          }),
              Each(IsEmpty()));
}

TEST_P(MemberSizes, AFastRankDoesNotOverwriteWhatASlowOneReads) {
  EXPECT_THAT(run_members(GetParam().size,
                          [](Member& member) {
                            for (std::int64_t i = 0; i < 2000; ++i) {
                              double value = static_cast<double>(i * (member.rank() + 1));
                              member.finish_all_reduce(member.start_all_reduce(&value, 1, kFloat64), within(60s));
                              const int sum_of_ranks = member.size() * (member.size() + 1) / 2;
                              const auto ranks = static_cast<double>(sum_of_ranks);
                              ASSERT_EQ(value, static_cast<double>(i) * ranks);
                            }
                          }),
              Each(IsEmpty()));
}

TEST_P(MemberSizes, BroadcastAndGatherKeepTheOrderOfRanks) {
  EXPECT_THAT(run_members(GetParam().size,
                          [](Member& member) {
                            for (const std::int64_t count : kCounts) {
                              const int root = static_cast<int>(count) % member.size();
                              std::vector<float> data = stamped<float>(member.rank(), count);
                              member.broadcast(data.data(), count, kFloat32, root, within(60s));
                              EXPECT_EQ(data, stamped<float>(root, count));

                              const std::vector<float> mine = stamped<float>(member.rank(), count * member.rank());
                              int next = 0;
                              const auto visit = [&](int rank, const void* from, std::int64_t got) {
                                EXPECT_EQ(rank, next++);
                                const auto* values = static_cast<const float*>(from);
                                EXPECT_EQ(std::vector<float>(values, values + got), stamped<float>(rank, count * rank));
                              };
                              member.all_gather(mine.data(), std::ssize(mine), kFloat32, Member::Sizes::kMayDiffer,
                                                visit, within(60s));
                              EXPECT_EQ(next, member.size());
                            }
                            member.barrier(within(60s));
                          }),
              Each(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, MemberSizes,
                         ::testing::Values(Crew{1, Cores::kOfThisMachine}, Crew{2, Cores::kOfThisMachine},
                                           Crew{3, Cores::kOfThisMachine}, Crew{4, Cores::kOfThisMachine},
                                           Crew{5, Cores::kOfThisMachine}, Crew{2, Cores::kOneForAll},
                                           Crew{5, Cores::kOneForAll}),
                         [](const auto& tested) {
                           return concat(tested.param.size, "_",
                                         tested.param.cores == Cores::kOneForAll ? "on_one_core" : "ranks");
                         });

TEST(MemberTest, AllocatedMemoryIsZeroedAlsoWhenItWasUsedBefore) {
  EXPECT_THAT(run_members(1,
                          [](Member& member) {
                            for (int i = 0; i < 3; ++i) {
                              const auto memory = member.allocate(10'000);
                              EXPECT_EQ(std::count(memory.get(), memory.get() + 10'000, std::byte{0}), 10'000);
                              std::memset(memory.get(), 1, 10'000);
                            }
                          }),
              Each(IsEmpty()));
}

TEST(MemberTest, AnotherOperationIsNamedOnAllRanks) {
  const auto outcomes = run_members(3, [](Member& member) {
    float value = 0;
    if (member.rank() == 2) return member.broadcast(&value, 1, kFloat32, 0, within(60s));
    member.finish_all_reduce(member.start_all_reduce(&value, 1, kFloat32), within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("#0 differs"), HasSubstr("broadcast of 1 x float32 from rank 0"),
                                   HasSubstr("all_reduce of 1 x float32"))));
}

TEST(MemberTest, AnotherSizeTypeOrRootIsNamedOnAllRanks) {
  const auto reduce = [](Member& member, std::int64_t count, const Element& element) {
    std::vector<double> data(static_cast<std::size_t>(count));
    member.finish_all_reduce(member.start_all_reduce(data.data(), count, element), within(60s));
  };
  EXPECT_THAT(run_members(2, [&](Member& member) { reduce(member, 2000 + member.rank(), kFloat32); }),
              Each(AllOf(HasSubstr("2000 x float32"), HasSubstr("2001 x float32"))));
  EXPECT_THAT(run_members(2, [&](Member& member) { reduce(member, 7, member.rank() == 0 ? kFloat32 : kFloat64); }),
              Each(AllOf(HasSubstr("7 x float32"), HasSubstr("7 x float64"))));
  EXPECT_THAT(run_members(2,
                          [&](Member& member) {
                            float value = 0;
                            member.broadcast(&value, 1, kFloat32, member.rank(), within(60s));
                          }),
              Each(AllOf(HasSubstr("from rank 0"), HasSubstr("from rank 1"))));
}

TEST(MemberTest, AMissingRankIsNamedAtTheDeadlineWithWhatEachDidLast) {
  std::atomic<int> thrown{0};
  const auto outcomes = run_members(3, [&](Member& member) {
    member.barrier(within(60s));
    float value = 0;
    member.broadcast(&value, 1, kFloat32, 2, within(60s));
    if (member.rank() != 1) {
      EXPECT_THROW(member.barrier(within(50ms)), RunError);
    }
    ++thrown;
    EXPECT_TRUE(eventually([&] { return thrown == 3; }));
    member.barrier(within(60s));
  });
  for (const std::string& outcome : outcomes) {
    EXPECT_THAT(
        outcome,
        AllOf(HasSubstr("barrier #2"), HasSubstr("waited for rank 1 until the deadline"),
              HasSubstr("rank 1 (process 1001): last sign of life"),
              HasSubstr("finished 2 collectives, began last #0 barrier, #1 broadcast of 1 x float32 from rank 2")));
  }
}

TEST(MemberTest, ARankThatLeavesIsNamedOnAllOthersAndWhatWasCompleteStays) {
  const auto outcomes = run_members(3, [](Member& member) {
    for (int i = 0; i < 3; ++i) member.barrier(within(60s));
    if (member.rank() == 1) return;
    member.barrier(within(60s));
  });
  EXPECT_EQ(outcomes[1], "");
  EXPECT_THAT(outcomes[0], HasSubstr("rank 1 (process 1001) left the group"));
  EXPECT_THAT(outcomes[2], HasSubstr("rank 1 (process 1001) left the group"));
}

TEST(MemberTest, AbortFromAnotherThreadEndsEveryWaitAndTheGroup) {
  std::atomic<int> thrown{0};
  const auto outcomes = run_members(3, [&](Member& member) {
    std::jthread aborter;
    if (member.rank() == 0) aborter = std::jthread([&] { member.abort("the pilot light went out"); });
    EXPECT_THROW(
        {
          for (;;) member.barrier(within(60s));
        },
        GroupAborted);
    EXPECT_THROW(member.barrier(within(60s)), GroupAborted);
    EXPECT_THROW((void)member.allocate(1), GroupAborted);
    // Nobody leaves before the others have seen that.
    ++thrown;
    EXPECT_TRUE(eventually([&] { return thrown == 3; }));
    member.barrier(within(60s));
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("closed by rank 0: the pilot light went out")));
}

TEST(MemberTest, WhoMissesTheDeadlineThrowsDeadlineExceeded) {
  std::vector<Meeting> meetings = meet_in_process(2);
  Member member(std::move(meetings[0]));
  EXPECT_THROW(member.barrier(within(10ms)), DeadlineExceeded);
}

TEST(MemberTest, AStopRequestEndsTheWaitOfASleeper) {
  std::stop_source stop;
  std::vector<Meeting> meetings = meet_in_process(2);
  RankBlock& absent = meetings[1].region->control().rank(1);
  Member member(std::move(meetings[0]));
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return absent.posted.sleepers() == 1; }));
    stop.request_stop();
  });
  try {
    member.barrier({.deadline = Deadline::infinite(), .stop = stop.get_token()});
    FAIL() << "rank 1 never came";
  } catch (const GroupAborted& error) {
    EXPECT_THAT(error.what(), HasSubstr("barrier #0: rank 0 waited for rank 1 until it was asked to stop"));
  }
}

TEST(MemberTest, MoreThanTheDepthUnderWayIsRefused) {
  const auto outcomes = run_members(1, [](Member& member) {
    float value = 0;
    for (std::uint64_t i = 0; i <= kDepth; ++i) (void)member.start_all_reduce(&value, 1, kFloat32);
  });
  EXPECT_THAT(outcomes.front(), HasSubstr("more than 128 collectives started"));
}

TEST(MemberTest, MemoryOutlivesTheGroup) {
  std::shared_ptr<std::byte> memory;
  EXPECT_THAT(run_members(1, [&](Member& member) { memory = member.allocate(5000); }), Each(IsEmpty()));
  std::memset(memory.get(), 7, 5000);
  EXPECT_EQ(memory.get()[4999], std::byte{7});
}

}  // namespace
}  // namespace tandem::shm
