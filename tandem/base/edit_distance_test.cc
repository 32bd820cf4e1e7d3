#include "tandem/base/edit_distance.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(EditDistanceTest, CountsEachKindOfSlipOnce) {
  EXPECT_EQ(edit_distance("gamma", "gamma"), 0);
  EXPECT_EQ(edit_distance("gama", "gamma"), 1);
  EXPECT_EQ(edit_distance("gammma", "gamma"), 1);
  EXPECT_EQ(edit_distance("gamme", "gamma"), 1);
  EXPECT_EQ(edit_distance("gmama", "gamma"), 1);
  EXPECT_EQ(edit_distance("", "gamma"), 5);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}

}  // namespace
}  // namespace tandem
