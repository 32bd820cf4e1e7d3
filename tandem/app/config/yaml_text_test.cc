#include "tandem/app/config/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/config/train_options.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class YamlSourceTest : public ::testing::Test {
 protected:
  [[nodiscard]] YamlSettings read(const std::string& text) const {
    return read_yaml(text, "a.yaml", Layer::kFile, table);
  }
  [[nodiscard]] std::vector<std::string> shown(const std::string& text) const {
    std::vector<std::string> lines;
    for (const Setting& setting : read(text).settings) lines.push_back(describe_fault(setting, ""));
    return lines;
  }

  TrainOptions options;
  OptionTable table = option_table(options);
};

TEST_F(YamlSourceTest, NestedAndDottedKeysAreTheSame) {
  const char* text =
      "env: CartPole-v1\nppo:\n  gamma: 0.9\n  # a comment\n  epochs: 3\npolicy.hidden: [32, 16]\nlog:\n";
  EXPECT_THAT(shown(text), ElementsAre("env = CartPole-v1 (a.yaml:1): ", "ppo.gamma = 0.9 (a.yaml:3): ",
                                       "ppo.epochs = 3 (a.yaml:5): ", "policy.hidden = [32, 16] (a.yaml:6): "));
}

TEST_F(YamlSourceTest, AnEmptyTextSetsNothing) {
  EXPECT_THAT(read("").faults, IsEmpty());
  EXPECT_THAT(read("# nothing\n").settings, IsEmpty());
}

TEST_F(YamlSourceTest, ASyntaxFaultNamesLineAndColumn) {
  EXPECT_THAT(read("env: a\nppo: {gamma: 0.9\n").faults, ElementsAre(HasSubstr("a.yaml:3, column 1: ")));
}

TEST_F(YamlSourceTest, TheTopIsOneMapping) {
  EXPECT_THAT(read("- env\n").faults, ElementsAre(HasSubstr("found a list")));
  EXPECT_THAT(read("CartPole-v1\n").faults, ElementsAre(HasSubstr("found text")));
  EXPECT_THAT(read("env: a\n---\nenv: b\n").faults, ElementsAre(HasSubstr("more than one YAML document")));
  EXPECT_THAT(read("[a, b]: c\n").faults, ElementsAre(HasSubstr("a.yaml:1: a key must be text")));
  EXPECT_THAT(read(std::string("env: \0a", 7)).faults, ElementsAre(HasSubstr("zero byte")));
}

TEST_F(YamlSourceTest, TheCostsOfATextAreBounded) {
  const auto refused = [this](const std::string& text, const char* why) {
    EXPECT_THAT(read(text).faults, ElementsAre(HasSubstr(why)));
    EXPECT_THAT(read(text).settings, IsEmpty());
  };
  std::string list = "seed: [";
  for (int i = 0; i < 100'001; ++i) list += "a,";
  refused(list + "]", "more than 100000 values");
  refused("seed: " + std::string(100, '[') + std::string(100, ']'), "nested more than 32 levels");
  refused("env: a\n" + std::string(1 << 20, '#'), "more than 1048576 bytes");
}

TEST_F(YamlSourceTest, AnUnknownSectionIsOneFaultWithTheNearestSection) {
  const YamlSettings read = this->read("polcy:\n  hidden: [64]\n  activation: tanh\n");
  EXPECT_THAT(table.assign(read.settings),
              ElementsAre("polcy = {...} (a.yaml:1): there is no such key; the nearest one is policy"));
}

TEST_F(YamlSourceTest, AKeyGivenTwiceIsAFault) {
  EXPECT_THAT(table.assign(read("seed: 1\nseed: 2\nppo: {gamma: 1}\nppo.gamma: 0\n").settings),
              ElementsAre("seed = 2 (a.yaml:2): was given already, as 1 (a.yaml:1); give it once",
                          "ppo.gamma = 0 (a.yaml:4): was given already, as 1 (a.yaml:3); give it once"));
}

TEST_F(YamlSourceTest, AMappingOrNullIsNoValue) {
  EXPECT_THAT(table.assign(read("seed: {a: 1}\nenv: [a, [b]]\nppo:\n  gamma:\n").settings),
              ElementsAre("seed = {...} (a.yaml:1): expected an integer from 0 to 9e+18",
                          "env = {...} (a.yaml:2): expected text",
                          "ppo.gamma = null (a.yaml:4): expected a number from 0 to 1"));
}

// The order is that of the file.
TEST_F(YamlSourceTest, MappingsInAListAreItsElements) {
  EXPECT_THAT(table.assign(read("env_wrappers: [frame_skip: 4:max, flatten, reward_clip: -1..1]\n"
                                "env_options: {b: 1, a: 'uniform(1, 2)'}\n")
                               .settings),
              IsEmpty());
  EXPECT_THAT(options.env_wrappers, ElementsAre("frame_skip=4:max", "flatten", "reward_clip=-1..1"));
  EXPECT_THAT(options.env_options, ElementsAre("b=1", "a=uniform(1, 2)"));
  EXPECT_THAT(table.assign(read("env_wrappers:\n- resize: 84x84@pixels\n- grey:\n").settings), IsEmpty());
  EXPECT_THAT(options.env_wrappers, ElementsAre("resize=84x84@pixels", "grey"));
  EXPECT_THAT(table.assign(read("env_wrappers: [frame_stack: [4]]\n").settings),
              ElementsAre("env_wrappers = {...} (a.yaml:1): expected a list, each text; an empty one is written []"));
}

TEST_F(YamlSourceTest, AliasesOfAliasesAreNotFollowed) {
  std::string text = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = concat("*a", i - 1), name = concat("a", i);
    text += concat(name, ": &", name, " {x: ", last, ", y: ", last, ", z: ", last, "}\n");
  }
  EXPECT_EQ(read(text).settings.size(), 40u);
}

TEST_F(YamlSourceTest, AMissingFileIsNamed) {
  EXPECT_THROW(
      {
        try {
          (void)read_text("/nowhere/a.yaml");
        } catch (const ConfigError& error) {
          EXPECT_THAT(error.what(), HasSubstr("/nowhere/a.yaml: No such file or directory"));
          throw;
        }
      },
      ConfigError);
  EXPECT_THROW((void)read_text("/"), ConfigError);
}

}  // namespace
}  // namespace tandem::app
