// What a launcher does with the others when a rank dies is known before anybody counts on outliving it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/free_port.h"
#include "tandem/base/text.h"
#include "tandem/comm/layered_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/world.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(SurvivalTest, ALauncherThatEndsAllIsNamedWithWhatWouldNot) {
  for (const auto& [launcher, fault] :
       {std::pair{Launcher::kTorchrun, "`tandem launch --on-death continue`"},
        std::pair{Launcher::kTandem, "add --on-death continue"}, std::pair{Launcher::kOpenMpi, "mpirun ends all"},
        std::pair{Launcher::kSlurm, "SLURM_KILL_BAD_EXIT=0"}}) {
    EXPECT_THAT(why_none_survive({.launcher = launcher, .on_death = OnDeath::kUnknown}), HasSubstr(fault));
    EXPECT_EQ(why_none_survive({.launcher = launcher, .on_death = OnDeath::kLeavesThem}), "");
  }
  EXPECT_EQ(why_none_survive({.launcher = Launcher::kVariables}), "") << "nobody is known to end the others";
}

// The group of all ranks, and those that are made of it.
TEST(SurvivalTest, TheGroupOfAWorldKnowsWhyNobodySurvives) {
  const int first = free_port(), second = free_port();
  shm::ProcessWorld processes(2, [first, second](int rank, const shm::Voice& voice) {
    for (const OnDeath on_death : {OnDeath::kEndsAll, OnDeath::kLeavesThem}) {
      const int port = on_death == OnDeath::kEndsAll ? first : second;
      const World world = open_world({.launcher = Launcher::kTorchrun,
                                      .rank = rank,
                                      .world_size = 2,
                                      .local_rank = rank,
                                      .master = {.address = "127.0.0.1", .port = port},
                                      .on_death = on_death},
                                     {});
      const auto group = make_layered_group(std::move(make_local_group(1).front()), world.group, within(60s));
      voice.say(concat("'", group->survival().why_none, "'"));
    }
  });
  EXPECT_THAT(processes.outcomes(), Each(AllOf(StartsWith("'torchrun ends all ranks when one dies"), EndsWith("''"))));
}

}  // namespace
}  // namespace tandem::comm
