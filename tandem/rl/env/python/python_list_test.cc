// Lists of a Python's environments: which names ask for one, and what a worker may say.
#include "tandem/rl/env/python/python_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PythonListTest, NamesThatEndWhereANameBeginsStandForSeveral) {
  for (const char* name : {"gymnasium:", "gymnasium:minigrid:", "pettingzoo:", "ALE/"})
    EXPECT_TRUE(is_python_list(name)) << name;
  for (const char* name : {"gymnasium:CartPole-v1", "gymnasium:minigrid:MiniGrid-Empty-8x8-v0", "ALE/Pong-v5",
                           "pettingzoo:pettingzoo.sisl.pursuit_v4", "CartPole-v1", "mine:", ""})
    EXPECT_FALSE(is_python_list(name)) << name;
}

TEST(PythonListTest, ReadsWhatAWorkerSays) {
  const PythonList list = read_python_list("gymnasium:", R"({"python": "/bin/py", "version": "3.9.1", "count": 7,
      "names": [{"name": "gymnasium:A-v0", "of": "a.b", "lacks": "gymnasium[a]"},
                {"name": "gymnasium:B-v0", "of": "b", "lacks": null}],
      "packages": [{"name": "b", "version": "1", "lists": null}], "absent": ["c"]})");
  EXPECT_EQ(list.version, "3.9.1");
  EXPECT_EQ(list.count, 7);
  ASSERT_EQ(list.names.size(), 2u);
  EXPECT_EQ(list.names[0].lacks, "gymnasium[a]");
  EXPECT_EQ(list.names[1].lacks, std::nullopt);
  EXPECT_EQ(list.packages.at(0).lists, std::nullopt);
  EXPECT_THAT(list.absent, ElementsAre("c"));
  EXPECT_THAT(message_of<ConfigError>([] { (void)read_python_list("ALE/", R"({"python": "p"})"); }),
              AllOf(HasSubstr("ALE/: what its worker says"), HasSubstr("version")));
  EXPECT_THAT(message_of<ConfigError>([] { (void)read_python_list("ALE/", "names"); }), HasSubstr("cannot be used"));
}

}  // namespace
}  // namespace tandem::rl
