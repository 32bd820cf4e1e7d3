#include "tandem/base/equal_parts.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(EqualPartsTest, PartsCoverAllElementsAtBordersOfGrainsAndNoneIsLargerThanTheLargest) {
  for (const std::int64_t elements : {0, 1, 31, 32, 33, 100, 1000, 4097}) {
    for (const int parts : {1, 2, 3, 5, 8}) {
      const EqualParts shared(elements, parts);
      ASSERT_EQ(shared.begin(0), 0);
      ASSERT_EQ(shared.begin(parts), elements);
      for (int part = 0; part < parts; ++part) {
        const std::int64_t begin = shared.begin(part), end = shared.begin(part + 1);
        ASSERT_LE(begin, end);
        ASSERT_LE(end - begin, shared.largest());
        ASSERT_TRUE(begin % 32 == 0 || begin == elements) << begin;
      }
    }
  }
}

TEST(EqualPartsTest, AreAsEqualAsGrainsAllow) {
  const EqualParts shared(320, 3);  // ten grains
  EXPECT_EQ(shared.begin(1), 96);
  EXPECT_EQ(shared.begin(2), 192);
  EXPECT_EQ(shared.largest(), 128);
}

}  // namespace
}  // namespace tandem
