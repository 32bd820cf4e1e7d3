#include "tandem/app/config/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Fields {
  std::int64_t count = 8;
  double rate = 0.5;
  std::optional<double> limit = 0.5;
  std::optional<std::int64_t> shards = {};
  std::vector<std::int64_t> sizes = {64, 64};
  std::string word = "red";
  bool on = false;
  std::optional<std::int64_t> parts = 4, size = {};
};

OptionTable table_of(Fields& fields) {
  OptionTable table;
  table.add("count", fields.count, "").at_least(1);
  table.add("rate", fields.rate, "").within(0, 1);
  table.add("limit", fields.limit, "").above(0);
  table.add("shards", fields.shards, "").at_least(1).absent_as("auto");
  table.add("net.sizes", fields.sizes, "").within(1, 1024);
  table.add("net.word", fields.word, "").one_of({"red", "blue"});
  table.add("net.on", fields.on, "");
  table.add("parts", fields.parts, "").at_least(1).instead_of("size");
  table.add("size", fields.size, "").at_least(1).instead_of("parts");
  return table;
}

Setting flag(std::string key, std::string text, std::string place = "--set") {
  return {std::move(key), RawValue::of_text(std::move(text)), {Layer::kFlag, std::move(place)}};
}

class OptionTableTest : public ::testing::Test {
 protected:
  Fields fields;
  OptionTable table = table_of(fields);
};

TEST_F(OptionTableTest, FillsFieldsOfEveryType) {
  EXPECT_THAT(table.assign({flag("count", "3"), flag("rate", "1"), flag("limit", "none"), flag("shards", "2"),
                            flag("net.sizes", "32, 16"), flag("net.word", "blue"), flag("net.on", "yes")}),
              IsEmpty());
  EXPECT_EQ(fields.count, 3);
  EXPECT_EQ(fields.rate, 1.0);
  EXPECT_EQ(fields.limit, std::nullopt);
  EXPECT_EQ(fields.shards, 2);
  EXPECT_THAT(fields.sizes, ElementsAre(32, 16));
  EXPECT_EQ(fields.word, "blue");
  EXPECT_TRUE(fields.on);
}

TEST_F(OptionTableTest, AListMayStandInBracketsOnTheCommandLine) {
  EXPECT_TRUE(table.assign({flag("net.sizes", "[32, 16]")}).empty());
  EXPECT_THAT(fields.sizes, ElementsAre(32, 16));
}

TEST_F(OptionTableTest, TellsEveryFaultAndKeepsWhatIsWell) {
  const std::vector<std::string> faults =
      table.assign({flag("count", "0"), flag("rate", "2"), flag("net.sizes", "32,x"), flag("net.word", "green"),
                    flag("net.on", "maybe"), flag("shards", "none"), flag("limit", "7")});
  EXPECT_THAT(
      faults,
      ElementsAre("count = 0 (--set): expected an integer at least 1",
                  "rate = 2 (--set): expected a number from 0 to 1",
                  "net.sizes = 32,x (--set): expected a list, each an integer from 1 to 1024; found \"x\" in it",
                  "net.word = green (--set): expected red or blue", "net.on = maybe (--set): expected true or false",
                  "shards = none (--set): expected an integer at least 1, or auto"));
  EXPECT_EQ(fields.count, 8);
  EXPECT_EQ(fields.limit, 7.0);
  EXPECT_TRUE(table.at("count").is_faulty());
  EXPECT_FALSE(table.at("limit").is_faulty());
}

TEST_F(OptionTableTest, AnUnknownKeyNamesTheNearest) {
  EXPECT_THAT(table.assign({flag("cuont", "1"), flag("sizes", "1"), flag("net", "1"), flag("nothing.like.it", "1")}),
              ElementsAre(HasSubstr("the nearest one is count"), HasSubstr("the nearest one is net.sizes"),
                          HasSubstr("this is a section; name a key in it, such as net.sizes"),
                          AllOf(HasSubstr("there is no such key"), HasSubstr("tandem train --help"))));
}

TEST_F(OptionTableTest, TheFileOfAnotherProgramIsNotAnsweredKeyByKey) {
  std::vector<Setting> settings;
  for (int i = 0; i < 500; ++i) settings.push_back(flag("other." + std::to_string(i), "1"));
  settings.push_back(flag("count", "0"));
  const std::vector<std::string> faults = table.assign(settings);
  EXPECT_EQ(faults.size(), 22u);
  EXPECT_THAT(faults, ::testing::Contains("480 more keys do not exist"));
  EXPECT_THAT(faults, ::testing::Contains(HasSubstr("count = 0")));
}

TEST_F(OptionTableTest, AKeyIsGivenOnceInALayer) {
  EXPECT_THAT(table.assign({flag("count", "2", "--count"), flag("count", "3")}),
              ElementsAre("count = 3 (--set): was given already, as 2 (--count); give it once"));
  EXPECT_THAT(table.assign({flag("count", "4")}), IsEmpty());  // a later layer may give it again
  EXPECT_EQ(fields.count, 4);
}

TEST_F(OptionTableTest, ARivalOfAStrongerLayerWins) {
  EXPECT_THAT(table.assign({flag("size", "64")}), IsEmpty());
  EXPECT_EQ(fields.size, 64);
  EXPECT_EQ(fields.parts, std::nullopt);
}

TEST_F(OptionTableTest, RivalsInOneLayerContradict) {
  EXPECT_THAT(table.assign({flag("size", "64", "--size"), flag("parts", "2", "--parts")}),
              ElementsAre("parts = 2 (--parts): contradicts size = 64 (--size); give one of the two"));
}

TEST_F(OptionTableTest, AnEmptiedRivalContradictsNothing) {
  EXPECT_THAT(table.assign({flag("parts", "none"), flag("size", "64")}), IsEmpty());
  EXPECT_EQ(fields.size, 64);
}

TEST_F(OptionTableTest, AFaultOfAValueInForceNamesItsPlace) {
  EXPECT_EQ(table.fault("count", "too small"), "count = 8 (the default): too small");
  (void)table.assign({flag("count", "3", "a.yaml:7")});
  EXPECT_EQ(table.fault("count", "too small"), "count = 3 (a.yaml:7): too small");
}

TEST_F(OptionTableTest, LongAndUnprintableValuesAreCutInMessages) {
  const std::vector<std::string> faults =
      table.assign({flag("count", std::string(5000, 'x')), flag("rate", "\x1b[2J")});
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_LT(faults[0].size(), 200u);
  EXPECT_EQ(faults[1].find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tandem::app
