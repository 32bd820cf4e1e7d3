#include "tandem/app/config/nearest_name.h"

#include <gtest/gtest.h>

namespace tandem::app {
namespace {

TEST(NearestNameTest, FindsTheSlipOfThePen) {
  const std::vector<std::string> names{"seed", "num_envs", "ppo.learning_rate", "ppo.epochs", "policy.hidden"};
  EXPECT_EQ(nearest_name("num_env", names), "num_envs");
  EXPECT_EQ(nearest_name("ppo.learnig_rate", names), "ppo.learning_rate");
  EXPECT_EQ(nearest_name("sede", names), "seed");
}

TEST(NearestNameTest, FindsTheNameInAnotherSection) {
  const std::vector<std::string> names{"seed", "ppo.learning_rate", "ppo.epochs", "policy.hidden"};
  EXPECT_EQ(nearest_name("epochs", names), "ppo.epochs");
  EXPECT_EQ(nearest_name("train.learning_rat", names), "ppo.learning_rate");
}

TEST(NearestNameTest, IsSilentWhenNothingIsNear) {
  const std::vector<std::string> names{"seed", "num_envs", "ppo.epochs"};
  EXPECT_EQ(nearest_name("temperature", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), names), std::nullopt);
}

}  // namespace
}  // namespace tandem::app
