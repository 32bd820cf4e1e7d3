// What a user reads of environments in Python: how each is named, what is missing and the command that brings it.
#include "tandem/app/commands/python_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/json_reader.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const rl::PythonList kList{.python = "/opt/py",
                           .version = "3.12.1",
                           .count = 9,
                           .names = {{"gymnasium:CartPole-v1", "gymnasium.envs.classic_control"},
                                     {"gymnasium:Lost-v3", "gymnasium.envs.box2d", "gymnasium[box2d]"}},
                           .packages = {{"gymnasium", "1.4.0", "gymnasium:"}, {"odd", "1", std::nullopt}},
                           .absent = {"minigrid"}};

TEST(PythonListingTest, SaysWhatThereIsAndWhatBringsTheRest) {
  EXPECT_EQ(list_text("gymnasium:", kList, std::nullopt),
            "Python 3.12.1: /opt/py\n\n"
            "name                   of                              shipped settings\n"
            "gymnasium:CartPole-v1  gymnasium.envs.classic_control  appo, dd_ppo, dqn, impala, ppo, sac\n"
            "gymnasium:Lost-v3      gymnasium.envs.box2d                                                 needs "
            "gymnasium[box2d]\n"
            "and 7 more\n\n"
            "what is needed: /opt/py -m pip install 'gymnasium[box2d]'\n\n"
            "packages of this Python that have environments, and what lists them\n"
            "gymnasium 1.4.0  tandem envs gymnasium:\n"
            "odd 1\n"
            "minigrid         not there: /opt/py -m pip install minigrid\n\n"
            "`tandem envs NAME` describes one.\n");
  EXPECT_THAT(list_text("gymnasium:odd:", {.python = "/opt/py", .version = "3.9.0"}, "/opt/py"),
              AllOf(HasSubstr("There is no environment whose name begins with gymnasium:odd:"),
                    HasSubstr("`tandem envs NAME --python /opt/py` describes one")));
}

TEST(PythonListingTest, IsAnObjectInJson) {
  JsonWriter json;
  write_list(json, kList);
  const JsonValue list = read_json(json.text());
  EXPECT_EQ(list.at("names").as_array().at(0).at("shipped_for").as_array().size(), 6u);
  EXPECT_EQ(list.at("names").as_array().at(1).at("lacks").as_string(), "gymnasium[box2d]");
  EXPECT_EQ(list.at("packages").as_array().at(0).at("lists").as_string(), "gymnasium:");
  EXPECT_EQ(list.at("absent").as_array().at(0).as_string(), "minigrid");
}

TEST(PythonListingTest, NamesThePythonThatIsAskedAndNoneWhereThereIsNone) {
  const std::vector<rl::EnvKind> kinds{{.prefix = "gymnasium:", .usage = "gymnasium:ID", .help = "Any.", .entry = {}}};
  EXPECT_THAT(kinds_text(kinds, "/bin/true"),
              AllOf(HasSubstr("gymnasium:ID  Any.\n"), HasSubstr("That Python is /bin/true."),
                    HasSubstr("tandem envs gymnasium:"), HasSubstr("/bin/true -m pip install 'gymnasium[box2d]'")));
  EXPECT_THAT(kinds_text(kinds, "no-such-python"), HasSubstr("Now there is no no-such-python in PATH"));
  EXPECT_EQ(kinds_text({}, std::nullopt), "");
}

}  // namespace
}  // namespace tandem::app
