#include "tandem/comm/store/store_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StoreValueTest, NumbersAreThoseThatFit) {
  EXPECT_EQ(number_in("joiners", "0", 0, kMostLives), 0);
  EXPECT_EQ(number_in("joiners", "1048576", 0, kMostLives), kMostLives);
  for (const char* const text : {"", " 1", "1 ", "+1", "-1", "1.0", "1048577", "1e3", "99999999999999999999", "one"})
    EXPECT_THROW((void)number_in("joiners", text, 0, kMostLives), RunError) << "'" << text << "'";
}

TEST(StoreValueTest, LivesAreAListWithoutRepetition) {
  EXPECT_THAT(lives_in("round/1/members", "0.0"), ElementsAre(Life{0, 0}));
  EXPECT_THAT(lives_in("round/1/members", "3.1 0.1000000"), ElementsAre(Life{3, 1}, Life{0, 1'000'000}));
  for (const char* const text : {"", " ", "0.0 ", " 0.0", "0.0  1.0", "0", "0.", ".0", "0.0.0", "-1.0", "0.-1", "a.b",
                                 "0.0 0.0", "0.0\n1.0", "2147483648.0", "gone"})
    EXPECT_THROW((void)lives_in("round/1/members", text), RunError) << "'" << text << "'";
}

TEST(StoreValueTest, PartsAreAsManyAsExpected) {
  EXPECT_THAT(parts_in("world", "auto\n7f\n\nalpha", '\n', 4), ElementsAre("auto", "7f", "", "alpha"));
  EXPECT_THAT(parts_in("world", "", '\n', 1), ElementsAre(""));
  for (const char* const text : {"", "auto\n7f\nalpha", "auto\n7f\n\nalpha\n"})
    EXPECT_THROW((void)parts_in("world", text, '\n', 4), RunError) << "'" << text << "'";
}

TEST(StoreValueTest, TheErrorNamesTheKeyAndShowsTheBeginning) {
  const std::string escape = "\x1b[2J" + std::string(100'000, 'x');
  EXPECT_THAT(message_of<RunError>([&] { (void)lives_in("join/1", escape); }),
              AllOf(HasSubstr("'join/1'"), HasSubstr(R"('\x1b[2Jxxx)"), HasSubstr("of 100004 bytes"),
                    HasSubstr("a list of 1 to 1048576 processes")));
  EXPECT_LT(message_of<RunError>([&] { (void)lives_in("join/1", escape); }).size(), 500U);
}

}  // namespace
}  // namespace tandem::comm
