#include "tandem/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/base/testing/grouping_locale.h"

namespace tandem {
namespace {

TEST(TextTest, JoinedWritesASeparatorBetweenItemsAlone) {
  struct Life {
    int rank = 0;
  };
  EXPECT_EQ(joined(std::vector<int>{}), "");
  EXPECT_EQ(joined(std::vector<std::string>{"", "a", ""}), ", a, ");
  EXPECT_EQ(joined(std::vector<Life>{{3}, {1}}, &Life::rank), "3, 1");
  EXPECT_EQ(joined(
                std::vector{1, 2}, [](int each) { return concat("+", each); }, " "),
            "+1 +2");
}

// What a library of the process makes of the global locale is no business of files and of the wire.
TEST(TextTest, NumbersAreThoseOfTheCLocale) {
  const GroupingLocale grouping;
  int rank = 0, restarts = 0;
  char dot = 0;
  reader_of("1.20") >> rank >> dot >> restarts;
  EXPECT_EQ(concat(43210, " ", 1234567.5), "43210 1.23457e+06");
  EXPECT_EQ(fixed(1234.5, 1), "1234.5");
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(restarts, 20);
  EXPECT_EQ(fixed(1e300, 2), "1e+300");
}

}  // namespace
}  // namespace tandem
