// Bad configuration files.
#include <gtest/gtest.h>

#include "bad_input.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

struct BadYaml {
  const char* name;
  std::string text;
  std::vector<std::string> words;
};
void PrintTo(const BadYaml& yaml, std::ostream* out) { *out << yaml.text.substr(0, 60); }

class BadYamlTest : public ::testing::TestWithParam<BadYaml> {};

TEST_P(BadYamlTest, IsNamedWithItsPlaceAndNothingIsStarted) {
  const TemporaryFolder folder;
  write_text(folder / "bad.yaml", GetParam().text);
  std::vector<std::string> words = GetParam().words;
  words.emplace_back("bad.yaml");
  expect_refusal(tandem(folder.path(), split("train bad.yaml --env CartPole-v1 --run-dir run")), kUserCanFixIt, words);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// Ten times as many scalars in each line as in the one before, if anything followed the aliases.
std::string billion_laughs() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = concat("*a", i - 1);
    text += concat("a", i, ": &a", i, " [", alias, repeated(", " + alias, 9), "]\n");
  }
  return text + "seed: *a11\n";
}

std::string zeros_and_others() {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>((i * i * 31 + i) % 256);
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(
    Form, BadYamlTest,
    ::testing::Values(BadYaml{"OpenBrace", "ppo: {gamma: 0.9\n", {"bad.yaml:2", "end of map"}},
                      BadYaml{"Tab", "ppo:\n\tgamma: 0.9\n", {"bad.yaml:2", "column"}},
                      BadYaml{"UndefinedAnchor", "seed: *nothing\n", {"bad.yaml:1", "anchor"}},
                      BadYaml{"AList", "- seed\n- env\n", {"expected `key: value` lines", "a list"}},
                      BadYaml{"Prose", "train it well\n", {"expected `key: value` lines", "text"}},
                      BadYaml{"TwoDocuments", "seed: 1\n---\nseed: 2\n", {"more than one YAML document", "leave one"}},
                      BadYaml{"CommaAtTheTop", ",,,a: 1\n", {"a comma at the top"}},
                      BadYaml{"Binary", zeros_and_others(), {"zero byte", "no text"}},
                      BadYaml{"Utf16", std::string("\xff\xfes\0e\0e\0d\0", 10), {"zero byte"}},
                      BadYaml{"TooLarge", std::string((1 << 20) + 1, '#'), {"more than 1048576 bytes"}},
                      BadYaml{"NestedLists", "seed: " + std::string(100'000, '['), {"bad.yaml:"}},
                      BadYaml{"NestedMaps", repeated("{a: ", 100'000), {"bad.yaml:"}},
                      BadYaml{"NestedLines", repeated("- ", 100'000), {"bad.yaml:"}},
                      BadYaml{"BillionLaughs", billion_laughs(), {"seed = {...}", "integer"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Content, BadYamlTest,
    ::testing::Values(
        BadYaml{"UnknownKey", "num_env: 4\n", {"num_env = 4", "bad.yaml:1", "nearest one is num_envs"}},
        BadYaml{"UnknownKeyOfASection", "ppo:\n  gama: 0.9\n", {"ppo.gama", "bad.yaml:2", "nearest one is ppo.gamma"}},
        BadYaml{"UnknownSection", "polic:\n  hidden: [64]\n", {"polic", "nearest one is policy"}},
        BadYaml{"TextForANumber", "ppo: {gamma: high}\n", {"ppo.gamma = high", "a number from 0 to 1"}},
        BadYaml{"NumberForASwitch", "normalize: {rewards: 3}\n", {"normalize.rewards = 3", "true or false"}},
        BadYaml{"FractionForACount", "num_envs: 4.5\n", {"num_envs = 4.5", "an integer"}},
        BadYaml{"ListForAScalar", "num_envs: [1, 2]\n", {"num_envs = [1, 2]", "an integer"}},
        BadYaml{"SectionForAScalar", "seed: {a: 1}\n", {"seed = {...}", "an integer"}},
        BadYaml{"NullForANumber", "seed: ~\n", {"seed = null", "an integer"}},
        BadYaml{"ScalarForASection", "ppo: 3\n", {"ppo = 3", "section", "ppo.epochs"}},
        BadYaml{"ListAsKey", "[seed, env]: 3\n", {"bad.yaml:1", "a key must be text"}},
        BadYaml{"KeyTwice", "seed: 1\nseed: 2\n", {"seed = 2 (bad.yaml:2)", "as 1 (bad.yaml:1)", "give it once"}},
        BadYaml{"KeyTwiceDotted", "ppo.gamma: 0.9\nppo: {gamma: 0.8}\n", {"ppo.gamma = 0.8", "as 0.9"}},
        BadYaml{"ShardsDoNotDivide", "num_envs: 6\nshards: 4\n", {"num_envs = 6", "4 shards", "4 or 8 would"}},
        BadYaml{"ManyAtOnce",
                "ppo:\n  gamma: 7\nseed: x\nnum_envs: -1\nnum_env: 3\n",
                {"4 faults", "ppo.gamma = 7 (bad.yaml:2)", "seed = x (bad.yaml:3)", "num_envs = -1 (bad.yaml:4)",
                 "num_env = 3 (bad.yaml:5)"}}),
    name_of);

TEST(BadYamlFileTest, MissingOrAFolderIsSaid) {
  const TemporaryFolder folder;
  expect_refusal(tandem(folder.path(), split("train gone.yaml --env CartPole-v1")), kUserCanFixIt,
                 {"gone.yaml", "No such file"});
  expect_refusal(tandem(folder.path(), split("train . --env CartPole-v1")), kUserCanFixIt,
                 {"is a folder", "YAML file"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tandem::process_test
