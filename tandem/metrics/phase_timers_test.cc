#include "tandem/metrics/phase_timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tandem/base/error.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

enum Phase : std::size_t { kLearn, kSync };

TEST(PhaseTimersTest, ChargesTheInnermostPhase) {
  PhaseTimers timers({"learn", "sync"});
  const Clock::time_point start = Clock::now();
  {
    const auto learn = timers.enter(kLearn);
    std::this_thread::sleep_for(10ms);
    {
      const auto sync = timers.enter(kSync);
      std::this_thread::sleep_for(30ms);
    }
    std::this_thread::sleep_for(10ms);
  }
  const Clock::duration passed = Clock::now() - start;
  EXPECT_GE(timers.total(kLearn), 20ms);
  EXPECT_GE(timers.total(kSync), 30ms);
  EXPECT_LE(timers.total(kLearn) + timers.total(kSync), passed);
  EXPECT_EQ(timers.entries(kLearn), 1u);
  EXPECT_EQ(timers.entries(kSync), 1u);
  const std::chrono::duration<double, std::milli> synced = timers.total(kSync);
  EXPECT_EQ(timers.milliseconds(kSync), synced.count());
}

TEST(PhaseTimersTest, TimeOutsideOfPhasesIsNotCharged) {
  PhaseTimers timers({"learn", "sync"});
  std::this_thread::sleep_for(5ms);
  { const auto learn = timers.enter(kLearn); }
  const Clock::duration learned = timers.total(kLearn);
  std::this_thread::sleep_for(5ms);
  { const auto sync = timers.enter(kSync); }
  EXPECT_EQ(timers.total(kLearn), learned);
  EXPECT_LT(timers.total(kSync), 5ms);
}

TEST(PhaseTimersTest, AResetWithinAPhaseChargesFromThen) {
  PhaseTimers timers({"learn", "sync"});
  {
    const auto learn = timers.enter(kLearn);
    std::this_thread::sleep_for(40ms);
    timers.reset();
  }
  EXPECT_LT(timers.total(kLearn), 40ms);
  EXPECT_GT(timers.total(kLearn), 0ms);
  EXPECT_EQ(timers.entries(kLearn), 0u);
}

TEST(PhaseTimersTest, RefusesAPhaseThatIsNone) {
  PhaseTimers timers({"learn"});
  EXPECT_THROW((void)timers.enter(1), InvariantError);
  EXPECT_THROW((void)timers.total(1), InvariantError);
}

}  // namespace
}  // namespace tandem
