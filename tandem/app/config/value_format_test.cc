#include "tandem/app/config/value_format.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::app {
namespace {

TEST(ReadIntegerTest, TakesDigitsGroupsAndWholePowersOfTen) {
  EXPECT_EQ(read_integer("300000"), 300'000);
  EXPECT_EQ(read_integer("300_000"), 300'000);
  EXPECT_EQ(read_integer("3e5"), 300'000);
  EXPECT_EQ(read_integer("-7"), -7);
  EXPECT_EQ(read_integer("+7"), 7);
  EXPECT_EQ(read_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
}

TEST(ReadIntegerTest, RefusesWhatIsNoWholeNumberOfInt64) {
  for (const char* text : {"", "8.5", "1e400", "9223372036854775808", "1e300", "0x10", "8 ", " 8", "eight", "1__0",
                           "_1", "1_", "nan", "inf", "--1", "1e-1"}) {
    EXPECT_EQ(read_integer(text), std::nullopt) << text;
  }
}

TEST(ReadNumberTest, RefusesWhatIsNotFinite) {
  EXPECT_EQ(read_number("2.5e-4"), 2.5e-4);
  EXPECT_EQ(read_number(".5"), 0.5);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "0.5x", ".", "1,5"}) {
    EXPECT_EQ(read_number(text), std::nullopt) << text;
  }
}

TEST(WriteNumberTest, ReadsBackAsTheSameBits) {
  for (const double value : {0.1, 1.0 / 3, 7.77e-5, 1e300, -0.0, 5e-324, 1.4142135623730951}) {
    EXPECT_EQ(read_number(write_number(value)), value);
  }
  EXPECT_EQ(write_number(0.0003), "0.0003");
}

TEST(ValueFormatTest, AnIntRefusesWhatOnlyFitsIntoMore) {
  EXPECT_EQ(ValueFormat<int>::read("2147483647"), 2147483647);
  EXPECT_EQ(ValueFormat<int>::read("2147483648"), std::nullopt);
}

TEST(WriteTextTest, QuotesWhatYamlWouldTakeForSomethingElse) {
  EXPECT_EQ(write_text("CartPole-v1"), "CartPole-v1");
  EXPECT_EQ(write_text("cuda:0,1"), "\"cuda:0,1\"");
  EXPECT_EQ(write_text(""), "\"\"");
  EXPECT_EQ(write_text("null"), "\"null\"");
  EXPECT_EQ(write_text("a: b # c"), "\"a: b # c\"");
  EXPECT_EQ(write_text("say \"x\"\n"), "\"say \\\"x\\\"\\x0a\"");
}

}  // namespace
}  // namespace tandem::app
