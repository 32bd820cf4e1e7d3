#include "tandem/comm/departure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>

#include "tandem/base/error.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/comm/testing/store_process.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using WorldWork = std::function<void(World&)>;

// Ranks that are processes, each with a world that `work` may leave by an exception. What comes out of the world's
// scope is said; PeerLost with the number that it names.
std::vector<std::string> run_rank_worlds(Backend backend, const WorldWork& work) {
  StoreProcess store;
  shm::ProcessWorld ranks(3, [&](int rank, const shm::Voice& voice) {
    const LauncherEnvironment me{.launcher = Launcher::kTandem,
                                 .rank = rank,
                                 .world_size = 3,
                                 .local_rank = rank,
                                 .local_size = 3,
                                 .master = {"127.0.0.1", store.port()},
                                 .launcher_hosts_store = true,
                                 .run_id = "departure"};
    try {
      World world = open_world(me, {.backend = backend});
      world.group->barrier(within(60s));
      work(world);
    } catch (const PeerLost& lost) {
      voice.say(concat("lost ", lost.peer(), ": "));
      throw;
    }
  });
  return ranks.outcomes();
}

std::vector<Backend> world_backends() { return {Backend::kHost, Backend::kTcp}; }

TEST(DepartureTest, TheOthersLearnWhyARankLeftByAnException) {
  for (const Backend backend : world_backends()) {
    const auto outcomes = run_rank_worlds(backend, [](World& world) {
      if (world.rank == 1) throw std::runtime_error("the data set is empty");
      world.group->barrier(within(60s));
    });
    EXPECT_EQ(outcomes[1], "the data set is empty");
    for (const int rank : {0, 2}) {
      EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)],
                  AllOf(HasSubstr("lost 1: "), HasSubstr("rank 1 (process "),
                        HasSubstr(") left by an exception; what it printed says which")));
    }
  }
}

TEST(DepartureTest, TheTextIsToldWhereItIsKnown) {
  for (const Backend backend : world_backends()) {
    const auto outcomes = run_rank_worlds(backend, [](World& world) {
      if (world.rank == 1) noting_failures([] { (void)torch::ones({2, 3}).matmul(torch::ones({2, 3})); });
      world.group->barrier(within(60s));
    });
    for (const int rank : {0, 2}) {
      EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)],
                  AllOf(HasSubstr(") left by an exception: mm: mat1 and mat2 shapes cannot be multiplied"),
                        ::testing::Not(HasSubstr("frame #"))));
    }
  }
}

TEST(DepartureTest, AnExceptionThatNobodyCatchesIsToldBeforeTheProcessEnds) {
  for (const Backend backend : world_backends()) {
    const auto outcomes = run_rank_worlds(backend, [](World& world) {
      const auto fails = [](const char* what) { throw std::runtime_error(what); };
      if (world.rank == 1) [&]() noexcept { fails("the data set is empty"); }();
      world.group->barrier(within(60s));
    });
    EXPECT_THAT(outcomes[1], HasSubstr("signal 6"));
    for (const int rank : {0, 2}) {
      EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)],
                  HasSubstr(") was ended by std::terminate(): the data set is empty"));
    }
  }
}

TEST(DepartureTest, AWorldThatEndsInOrderTellsNothing) {
  for (const Backend backend : world_backends()) {
    EXPECT_THAT(run_rank_worlds(backend,
                                [](World& world) {
                                  try {
                                    throw std::runtime_error("caught");
                                  } catch (const std::exception&) {
                                    const World moved = std::move(world);
                                  }
                                }),
                Each(""));
  }
}

TEST(DepartureTest, TheFirstFailureIsKept) {
  const auto store = make_memory_store();
  EXPECT_FALSE(first_failure_of(*store).has_value());
  EXPECT_EQ(tell_first_failure(*store, {2, "a\nException raised from b"}).rank, 2);
  EXPECT_EQ(tell_first_failure(*store, {1, "c"}).rank, 2);
  EXPECT_EQ(first_failure_of(*store)->why, "a");
  const auto other = make_memory_store();
  for (const std::string foreign : {"", "rank", "rank x: y", "rank -1: y", "rank 1 y", "rank 1:"}) {
    other->set("first_failure", foreign);
    EXPECT_FALSE(first_failure_of(*other).has_value()) << foreign;
  }
}

}  // namespace
}  // namespace tandem::comm
