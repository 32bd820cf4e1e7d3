#include "tandem/rl/env/policy_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/env/native/kuhn_poker.h"
#include "tandem/rl/env/native/multi_agent_cartpole.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> faults_of(const MultiAgentSpec& spec, const PolicyMapOptions& options) {
  try {
    (void)policy_map(spec, options);
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

TEST(PolicyMapTest, EveryAgentHasAPolicyOfItsOwnUnlessTold) {
  const PolicyMap map = policy_map(KuhnPoker::spec(), {});
  ASSERT_EQ(map.size(), 2U);
  EXPECT_EQ(map[0].name, "player_0");
  EXPECT_EQ(map[1].spec.id, "KuhnPoker-v0/player_1");
  EXPECT_THAT(map[1].agents, ElementsAre(1U));
  EXPECT_TRUE(map[0].trained && map[1].trained && map[1].spec.has_action_mask);
}

TEST(PolicyMapTest, TheOnlyPolicyIsSharedAndTheFirstRuleThatFitsCounts) {
  EXPECT_THAT(policy_map(MultiAgentCartPole::spec(), {.policies = {"all"}})[0].agents, ElementsAre(0U, 1U, 2U, 3U));
  const PolicyMap map =
      policy_map(MultiAgentCartPole::spec(), {.policies = {"others", "leader"},
                                              .mapping = mapping_of({"cart_2=leader", "cart_*=others"}),
                                              .policies_to_train = {"leader"}});
  EXPECT_THAT(map[0].agents, ElementsAre(0U, 1U, 3U));
  EXPECT_THAT(map[1].agents, ElementsAre(2U));
  EXPECT_FALSE(map[0].trained);
  EXPECT_TRUE(map[1].trained);
}

TEST(PolicyMapTest, AllFaultsAreSaidAtOnceWithWhatThereIs) {
  EXPECT_THAT(
      faults_of(KuhnPoker::spec(),
                {.policies = {"a", "b"}, .mapping = mapping_of({"player_0=c"}), .policies_to_train = {"d"}}),
      ElementsAre(AllOf(HasSubstr("agent player_0"), HasSubstr("'c'"), HasSubstr("there are a, b")),
                  HasSubstr("agent player_1 of KuhnPoker-v0 has no policy"), HasSubstr("policy 'a' has no agent"),
                  HasSubstr("policy 'b' has no agent"), HasSubstr("'d' is to be trained")));
  EXPECT_THAT(faults_of(KuhnPoker::spec(), {.policies = {"a", "a"}, .mapping = mapping_of({"*=a"})}),
              ::testing::Contains(HasSubstr("named twice")));
  EXPECT_THAT(faults_of(KuhnPoker::spec(), {.policies = {"a/b"}}), ElementsAre(HasSubstr("policy 'a/b'")));
}

TEST(PolicyMapTest, ARuleThatIsNoneIsNamed) {
  try {
    (void)mapping_of({"player_0", "=a", "b=", "x=y"});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre(HasSubstr("'player_0'"), HasSubstr("'=a'"), HasSubstr("'b='")));
  }
}

TEST(PolicyMapTest, AgentsThatDifferCannotShareAPolicy) {
  const auto shared = [](auto&& change) {
    MultiAgentSpec spec = MultiAgentCartPole::spec();
    change(spec.agents[2]);
    return faults_of(spec, {.policies = {"all"}});
  };
  EXPECT_THAT(shared([](AgentSpec&) {}), ElementsAre());
  EXPECT_THAT(shared([](AgentSpec& a) { a.observation = {{.shape = {5}}}; }),
              ElementsAre(AllOf(HasSubstr("cart_0 and cart_2"), HasSubstr("float32[4]"), HasSubstr("float32[5]"))));
  EXPECT_THAT(shared([](AgentSpec& a) { a.observation[0].low[0] = -7; }), ElementsAre(HasSubstr("other bounds")));
  EXPECT_THAT(shared([](AgentSpec& a) { a.action = Discrete{3}; }),
              ElementsAre(AllOf(HasSubstr("Discrete(2)"), HasSubstr("Discrete(3)"))));
  EXPECT_THAT(shared([](AgentSpec& a) { a.action = Box{{-1}, {1}}; }), ElementsAre(HasSubstr("Box(1)")));
  EXPECT_THAT(shared([](AgentSpec& a) { a.has_action_mask = true; }), ElementsAre(HasSubstr("has no action mask")));
}

}  // namespace
}  // namespace tandem::rl
