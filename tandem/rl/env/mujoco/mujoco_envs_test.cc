#include "tandem/rl/env/mujoco/mujoco_envs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

// A build has all of them or none, and says why.
TEST(MujocoEnvsTest, TheRegistryHasThemOrSaysWhatIsMissing) {
  const EnvRegistry registry = EnvRegistry::native();
  std::vector<std::string> names;
  for (const EnvEntry& entry : mujoco_entries()) names.push_back(entry.spec.id);
  if (!names.empty()) {
    EXPECT_EQ(names, mujoco_names());
    EXPECT_EQ(why_no_mujoco(), "") << "it was built with MuJoCo's headers, so the library must be there, too";
    for (const std::string& name : names) {
      if (name == "mujoco") continue;  // needs a model
      EXPECT_EQ(registry.make(name, 2)->spec().id, name);
    }
    return;
  }
  for (const std::string& name : mujoco_names()) {
    const std::string message = message_of<ConfigError>([&] { (void)registry.make(name, 2); });
    EXPECT_THAT(message, HasSubstr("there is no environment '" + name + "'"));
    EXPECT_THAT(message, HasSubstr("tools/bootstrap --mujoco"));
  }
  EXPECT_THAT(message_of<ConfigError>([&] { (void)registry.make("HalfCheeta-v5", 2); }),
              ::testing::Not(HasSubstr("MuJoCo")));
}

}  // namespace
}  // namespace tandem::rl
