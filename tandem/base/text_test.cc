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

TEST(PrintableTest, WhatATerminalWouldObeyIsShownAsHexadecimalBytes) {
  EXPECT_EQ(printable("a\tb\n"), "a\tb\n");
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J\r\x7f"), "\\x1b]0;title\\x07\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m, \x9b"
                      "31m"),
            "\\xc2\\x9b31m, \\x9b31m");  // a sequence's start in one character
  EXPECT_EQ(printable("h\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80"), "h\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\xe6\x97"), "\\xe6\\x97");
  EXPECT_EQ(printable({"\0", 1}), "\\x00");
}

}  // namespace
}  // namespace tandem
