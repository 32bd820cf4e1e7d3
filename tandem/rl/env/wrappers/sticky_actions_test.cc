#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/philox.h"
#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using testing::Pictures;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

// The rule and the generator are written down here once more.
TEST(StickyActionsTest, TakesTheActionOfBeforeAsTheGeneratorSays) {
  Wrapped<Tally> tally({"reward_scale=1", "sticky_actions=0.4"}, 2);
  std::vector<NumpyGenerator> random;
  for (const std::uint64_t seed : {5, 6}) random.emplace_back(derive_seed(seed, SeedPurpose::kEnvWrapper, 1));
  std::vector<std::int64_t> last(2, -1);
  int stuck = 0;
  for (std::int64_t step = 0; step < 60; ++step) {
    const std::vector<std::int64_t> actions{step % 4, (step + 1) % 3};
    tally.step(actions);
    for (std::size_t e = 0; e < 2; ++e) {
      if (last[e] >= 0 && random[e].uniform(0, 1) < 0.4) {
        ++stuck;
      } else {
        last[e] = actions[e];
      }
      const std::vector<float> seen = tally.terminated(e) ? tally.last_seen(e) : tally.seen(e);
      EXPECT_EQ(seen[2], static_cast<float>(last[e])) << "step " << step;
      if (tally.terminated(e)) last[e] = -1;
    }
  }
  EXPECT_GT(stuck, 20);
}

TEST(StickyActionsTest, NumbersStickToo) {
  struct Line {
    static Spec spec() {
      return {.id = "Line-v0", .observation = {{.shape = {2}}}, .action = Box{.low = {-1, -1}, .high = {1, 1}}};
    }
    std::array<float, 2> reset(NumpyGenerator& /*random*/) { return {}; }
    StepResult<std::array<float, 2>> step(std::span<const float> action) { return {{action[0], action[1]}}; }
  };
  Wrapped<Line> line({"sticky_actions=0.5"});
  line.step_box({0, 0.5});
  int stuck = 0;
  for (int step = 1; step < 30; ++step) {
    const std::vector<float> before = line.seen();
    line.step_box({static_cast<float>(step) / 32, 0.25});
    if (line.seen() == before) {
      ++stuck;
    } else {
      EXPECT_EQ(line.seen(), (std::vector<float>{static_cast<float>(step) / 32, 0.25}));
    }
  }
  EXPECT_GT(stuck, 5);
  EXPECT_LT(stuck, 25);
}

TEST(StickyActionsTest, MasksAndOtherProbabilitiesAreRefused) {
  EXPECT_THAT(refusal_of<Pictures>({"sticky_actions=0.1"}), HasSubstr("action masks"));
  EXPECT_THAT(refusal_of<Tally>({"sticky_actions=1"}), HasSubstr("a number from 0 to 0.999"));
}

}  // namespace
}  // namespace tandem::rl
