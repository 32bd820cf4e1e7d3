#include "tandem/base/budget.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

std::string refusal(const std::function<void()>& spend) {
  try {
    spend();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(BudgetTest, EachBoundIsNamedWhenItIsPassedAndNotBefore) {
  Budget budget({.bytes = 10, .items = 3, .depth = 2, .item = "rows"});
  budget.take_bytes(10);
  budget.take_items(3);
  EXPECT_EQ(refusal([&] { budget.take_bytes(1); }), "it needs more than 10 bytes of memory");
  EXPECT_EQ(refusal([&] { budget.take_items(); }), "it holds more than 3 rows");
  EXPECT_EQ(budget.items(), 3u);
  const Budget::Level one = budget.enter();
  {
    const Budget::Level two = budget.enter();
    EXPECT_EQ(refusal([&] { (void)budget.enter(); }), "it is nested more than 2 levels deep");
  }
  EXPECT_EQ(refusal([&] { (void)budget.enter(); }), "") << "a level is left with its scope";
}

TEST(BudgetTest, ACountThatWouldOverflowIsRefused) {
  Budget budget({.bytes = 10});
  budget.take_bytes(4);
  EXPECT_NE(refusal([&] { budget.take_bytes(~std::uint64_t{0}); }), "");
  EXPECT_EQ(budget.bytes(), 4u);
}

TEST(BudgetTest, TheDecoderChoosesItsError) {
  Budget budget({.items = 0}, [](const std::string& why) { throw CheckpointError("byte 7: " + why); });
  EXPECT_THROW(budget.take_items(), CheckpointError);
}

}  // namespace
}  // namespace tandem
