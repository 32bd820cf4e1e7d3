#include <gtest/gtest.h>

#include "tandem/app/simulate/scale.h"

namespace tandem::app {
namespace {

TEST(CostTest, WordsAreReadAndWritten) {
  EXPECT_EQ(read_cost("2.5"), Cost{.mean_ms = 2.5});
  EXPECT_EQ(read_cost("pareto:1:1.5"), (Cost{.mean_ms = 1, .shape = 1.5}));
  for (const char* text : {"2.5", "pareto:1:1.5"}) EXPECT_EQ(read_cost(text)->text(), text);
  for (const char* text : {"", "-1", "1e9", "fast", "pareto:1", "pareto:1:1", "pareto:x:2", "pareto:1:2:3"})
    EXPECT_EQ(read_cost(text), std::nullopt) << text;
}

TEST(CostTest, DrawsHaveTheMeanAndTheTailThatWereAskedFor) {
  Philox random(1);
  EXPECT_EQ((Cost{.mean_ms = 3}).draw_ms(random), 3);
  const Cost pareto{.mean_ms = 2, .shape = 3};
  constexpr int kDraws = 200'000;
  double sum = 0;
  int beyond = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double ms = pareto.draw_ms(random);
    ASSERT_GE(ms, 4.0 / 3);  // mean (shape - 1) / shape
    sum += ms;
    beyond += ms > 8.0 / 3 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 2, 0.03);
  EXPECT_NEAR(beyond / double{kDraws}, 0.125, 0.005);  // twice the least: 2^-shape
}

}  // namespace
}  // namespace tandem::app
