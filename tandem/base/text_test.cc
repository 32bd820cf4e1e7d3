#include "tandem/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace tandem
