#include "tandem/rl/env/python/python_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string leaf(const std::string& rest) { return R"({"name": "obs", "kind": "box", )" + rest + "}"; }

// `leaves` and the rest of a description; both as JSON.
std::string described(const std::string& leaves, const std::string& action = R"({"type": "discrete", "n": [2]})",
                      const std::string& limit = "null") {
  return concat(R"({"observation": [)", leaves, R"(], "action": )", action,
                R"(, "mask": false, "metrics": [], "max_episode_steps": )", limit,
                R"(, "reward_threshold": null, "render_fps": null, "together": false})");
}

Spec read(const std::string& json) { return std::get<Spec>(read_python_spec("gymnasium:A", json).spec); }
std::string fault_of(const std::string& json) {
  return message_of<ConfigError>([&] { (void)read_python_spec("gymnasium:A", json); });
}

TEST(PythonSpecReaderTest, BoundsAreOneNumberAListOrNone) {
  const auto read_leaf = [](const std::string& rest) { return read(described(leaf(rest))).observation.front(); };
  const Leaf one = read_leaf(R"("dtype": "float32", "shape": [2, 2], "low": -1, "high": 2.5)");
  EXPECT_THAT(one.low, AllOf(SizeIs(4), Each(-1)));
  EXPECT_THAT(one.high, AllOf(SizeIs(4), Each(2.5)));
  const Leaf half = read_leaf(R"("dtype": "float64", "shape": [2], "low": [0, null], "high": null)");
  EXPECT_EQ(half.type, ElementType::kFloat64);
  EXPECT_THAT(half.low, ElementsAre(0, -kInf));
  EXPECT_THAT(half.high, Each(kInf));
  EXPECT_THAT(read_leaf(R"("dtype": "uint8", "shape": [], "low": null, "high": null)").low, IsEmpty());
}

TEST(PythonSpecReaderTest, SeveralAgentsHaveAListOfThem) {
  const std::string its = R"("action": {"type": "box", "low": [null, -1], "high": [1, 1]}, "mask": false)";
  const std::string agent =
      concat(R"("observation": [)", leaf(R"("dtype": "float32", "shape": [1], "low": null, "high": null)"), "], ", its);
  const PythonSpec both = read_python_spec(
      "pettingzoo:a",
      concat(R"({"agents": [{"name": "a", )", agent, R"(}, {"name": "b", )", agent,
             R"(}], "max_episode_steps": 7, "reward_threshold": 3, "render_fps": 1e9, "together": true})"));
  const auto& spec = std::get<MultiAgentSpec>(both.spec);
  ASSERT_THAT(spec.agents, SizeIs(2));
  EXPECT_EQ(spec.agents[1].name, "b");
  EXPECT_THAT(std::get<Box>(spec.agents[1].action).low, ElementsAre(-kInf, -1));
  EXPECT_EQ(spec.max_episode_steps, 7);
  EXPECT_EQ(spec.render_fps, 1000);
  EXPECT_TRUE(both.is_together);
}

// A worker is not believed.
TEST(PythonSpecReaderTest, WhatCannotBeIsRefused) {
  const std::string good = leaf(R"("dtype": "float32", "shape": [2], "low": null, "high": null)");
  ASSERT_NO_THROW((void)read(described(good)));
  for (const std::string json : {"", "[]", "{}", "null", R"({"observation": 7})"}) {
    EXPECT_THAT(fault_of(json), HasSubstr("gymnasium:A: what its worker says of it cannot be used")) << json;
  }
  const auto of_leaf = [](const std::string& rest) { return fault_of(described(leaf(rest))); };
  EXPECT_THAT(of_leaf(R"("dtype": "complex64", "shape": [2], "low": null, "high": null)"), HasSubstr("'complex64'"));
  EXPECT_THAT(of_leaf(R"("dtype": "float32", "shape": [-2], "low": 0, "high": 1)"), HasSubstr("has the shape [-2]"));
  EXPECT_THAT(of_leaf(R"("dtype": "float32", "shape": [0], "low": 0, "high": 1)"), HasSubstr("has the shape [0]"));
  EXPECT_THAT(of_leaf(R"("dtype": "float32", "shape": [9000000000000, 9000000000000], "low": 0, "high": 1)"),
              HasSubstr("has the shape"));
  EXPECT_THAT(of_leaf(R"("dtype": "float32", "shape": [2], "low": [0, 0, 0], "high": 1)"), HasSubstr("low has 3"));
  EXPECT_THAT(of_leaf(R"("dtype": "float32", "shape": [2], "low": 3, "high": 1)"), HasSubstr("must be <= high"));
  EXPECT_THAT(fault_of(described(good + ", " + good)), HasSubstr("are both named 'obs'"));
  EXPECT_THAT(fault_of(described("")), HasSubstr("observation has no leaf"));
  const auto of_action = [&](const std::string& action) { return fault_of(described(good, action)); };
  EXPECT_THAT(of_action(R"({"type": "discrete", "n": [0]})"), HasSubstr("needs at least one action"));
  EXPECT_THAT(of_action(R"({"type": "discrete", "n": [2, 2]})"), HasSubstr("an action of type 'discrete'"));
  EXPECT_THAT(of_action(R"({"type": "dict", "n": []})"), HasSubstr("an action of type 'dict'"));
  EXPECT_THAT(of_action(R"({"type": "box", "low": [0], "high": [1, 1]})"), HasSubstr("low has 1 entries and high"));
  EXPECT_THAT(fault_of(described(good, R"({"type": "discrete", "n": [2]})", "0")), HasSubstr("a time limit of 0"));
}

// As many elements as a gibibyte of bounds would have, in few bytes.
TEST(PythonSpecReaderTest, ManyElementsInFewBytesAreRefused) {
  std::string leaves;
  for (int i = 0; i < 40; ++i) {
    leaves += concat(i == 0 ? "" : ", ", R"({"name": "l)", i,
                     R"(", "kind": "box", "dtype": "float32", "shape": [1048576], "low": 0, "high": 1})");
  }
  EXPECT_THAT(fault_of(described(leaves)), HasSubstr("observation leaf 'l32' has the shape [1048576]"));
}

}  // namespace
}  // namespace tandem::rl
