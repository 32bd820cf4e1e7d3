#include "tandem/rl/rollout/sequences.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::rl {
namespace {

TEST(SequenceCutTest, EveryStepIsLearnedFromOnceWhateverTheLengths) {
  for (int steps = 1; steps <= 20; ++steps) {
    for (int length = 1; length <= 21; ++length) {
      for (int burn_in = 0; burn_in <= 21; ++burn_in) {
        const SequenceCut cut(steps, {.length = length, .burn_in = burn_in});
        std::vector<int> learned(static_cast<std::size_t>(steps), 0);
        for (int k = 0; k < cut.count(); ++k) {
          int of_sequence = 0;
          for (int i = 0; i < cut.window(); ++i) {
            if (!cut.learns(k, i)) continue;
            ++learned.at(static_cast<std::size_t>(cut.begin(k)) + static_cast<std::size_t>(i));
            ++of_sequence;
          }
          EXPECT_GT(of_sequence, 0) << steps << " " << length << " " << burn_in;
        }
        EXPECT_EQ(learned, std::vector<int>(static_cast<std::size_t>(steps), 1))
            << steps << " " << length << " " << burn_in;
      }
    }
  }
}

TEST(SequenceCutTest, BurnInComesBeforeWhatIsLearnedFrom) {
  const SequenceCut cut(10, {.length = 4, .burn_in = 2});
  EXPECT_EQ(cut.count(), 2);
  EXPECT_EQ(cut.window(), 6);
  EXPECT_EQ(cut.begin(1), 4);
  EXPECT_TRUE(cut.learns(0, 0));
  EXPECT_FALSE(cut.learns(1, 1));
  EXPECT_TRUE(cut.learns(1, 2));
}

TEST(SequenceCutTest, WithoutStepsThereIsNoSequence) {
  const SequenceCut cut(0, {.length = 4, .burn_in = 2});
  EXPECT_EQ(cut.count(), 0);
  EXPECT_EQ(cut.window(), 0);
}

}  // namespace
}  // namespace tandem::rl
