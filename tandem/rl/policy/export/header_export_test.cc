// Laws of the text of a header. What compilers make of it is tested by tests/parity/deployment_parity.py.
#include "tandem/rl/policy/export/header_export.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <bit>
#include <charconv>
#include <limits>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/export/header_text.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Spec header_spec(std::vector<Leaf> leaves = {{.shape = {3}}}) {
  return {.id = "Test-v0", .observation = std::move(leaves), .action = Discrete{2}};
}

TEST(HeaderTextTest, NumbersReadBackAsTheSameBits) {
  torch::manual_seed(1);
  const at::Tensor numbers = at::cat({at::randn({2000}), at::randn({100}) * 1e-38, at::randn({100}) * 1e37,
                                      at::tensor({0.0F, -0.0F, 1.0F, 16777216.0F, 1e-45F})});
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    const auto number = numbers[i].item<float>();
    const std::string text = literal(number);
    ASSERT_EQ(text.back(), 'F');
    ASSERT_NE(text.find_first_of(".e"), std::string::npos) << text;
    float back = 0;
    std::from_chars(text.data(), text.data() + text.size() - 1, back);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back), std::bit_cast<std::uint32_t>(number)) << text;
  }
}

TEST(HeaderTextTest, WhatHasNoTextIsAConfigError) {
  EXPECT_THROW((void)literal(std::numeric_limits<float>::quiet_NaN()), ConfigError);
  EXPECT_THROW((void)literal(std::numeric_limits<float>::infinity()), ConfigError);
  EXPECT_EQ(literal(-std::numeric_limits<double>::infinity()), "-std::numeric_limits<double>::infinity()");
  EXPECT_EQ(literal(std::int64_t{-3}), "-3LL");
}

TEST(HeaderTextTest, ACommentStaysInItsLine) {
  EXPECT_EQ(comment_text("C:\\"), "C:/");
  EXPECT_EQ(comment_text("what\?\?/"), "what../");
  EXPECT_THAT(comment_text("a\nb"), Not(HasSubstr("\n")));
}

TEST(HeaderExportTest, TheNamespaceIsThatOfTheFile) {
  EXPECT_EQ(header_namespace("runs/pole.h"), "tandem_pole");
  EXPECT_EQ(header_namespace("my-robot 2.h"), "tandem_my_robot_2");
  MlpPolicy policy(header_spec(), {.hidden = {4}}, model::seeded(1));
  const std::string text = header_of({.policy = policy}, "pole");
  EXPECT_THAT(text, HasSubstr("namespace tandem_pole {"));
  EXPECT_THAT(text, HasSubstr("float obs[3];"));
  EXPECT_THAT(text, Not(HasSubstr("State")));
}

TEST(HeaderExportTest, LeavesThatNameNoMemberGetANumber) {
  const Spec spec = header_spec({{.name = "arm.joints", .shape = {2}},
                                 {.name = "class"},
                                 {.name = "x"},
                                 {.name = "x"},
                                 {.name = ""},
                                 {.name = "state"},
                                 {.name = "observation_2"}});
  EXPECT_THAT(leaf_names(spec), ::testing::ElementsAre("arm_joints", "observation_1", "observation_2", "observation_3",
                                                       "observation_4", "observation_5", "observation_6"));
}

TEST(HeaderExportTest, ADivergedPolicyIsAConfigError) {
  MlpPolicy policy(header_spec(), {.hidden = {4}}, model::seeded(1));
  const at::NoGradGuard no_grad;
  policy.actor().layers()[0]->weight[0][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)header_of({.policy = policy}, "p"), ConfigError);
}

TEST(HeaderExportTest, MoreWeightsThanACompilerTakesAreAConfigError) {
  // Its matrices have a short side each, so that making them orthogonal takes no time.
  MlpPolicy policy(header_spec(), {.hidden = {65536, 64}}, model::seeded(1));
  EXPECT_THROW((void)header_of({.policy = policy}, "p"), ConfigError);
}

TEST(HeaderExportTest, ConvolutionsAndOwnModulesAreConfigErrorsThatSayWhatWorks) {
  const Spec spec = header_spec({{.name = "eye", .type = ElementType::kUInt8, .shape = {1, 8, 8}}});
  MlpPolicy seeing(spec, {.torso = {.channels = {4}, .blocks = 0}}, model::seeded(8));
  try {
    (void)header_of({.policy = seeing}, "p");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr(".onnx"));
  }
  struct Own : ActorCritic {
    using ActorCritic::ActorCritic;
    PolicyOutput forward(const Observation& observation) override { return {{observation[0]}, observation[0]}; }
  };
  const Own own(header_spec());
  try {
    (void)header_of({.policy = own}, "p");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("acting_net"));
  }
}

}  // namespace
}  // namespace tandem::rl
