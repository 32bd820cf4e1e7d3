// Everything that a user can get wrong gives exit code 2 or 3 and a message that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/program.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct BadInput {
  const char* name;
  std::vector<std::string> arguments;  // "FILE" stands for a file that holds `yaml`, "DIR" for an empty folder
  std::string yaml;
  int code;
  const char* named;  // in the message
};

std::ostream& operator<<(std::ostream& out, const BadInput& bad) { return out << bad.name; }

std::vector<std::string> set(const char* text) { return {"train", "--env", "CartPole-v1", "--set", text}; }
std::vector<std::string> flag(const char* name, const char* value) {
  return {"train", "--env", "CartPole-v1", name, value};
}
BadInput yaml(const char* name, std::string text, const char* named) {
  return {name, {"train", "FILE"}, std::move(text), 2, named};
}

const std::vector<BadInput>& bad_inputs() {
  static const std::vector<BadInput> all{
      {"NoCommand", {}, "", 2, "name a command"},
      {"UnknownCommand", {"trian"}, "", 2, "the nearest one is train"},
      {"UnknownFlag", flag("--num-env", "8"), "", 2, "the nearest one is --num-envs"},
      {"FlagWithoutValue", {"train", "--env"}, "", 2, "--env"},
      {"FlagTwice", {"train", "--env", "CartPole-v1", "--seed", "1", "--seed", "2"}, "", 2, "given already"},
      {"NoEnvironment", {"train"}, "", 2, "name an environment"},
      {"UnknownEnvironment", {"train", "--env", "CartPol-v1"}, "", 2, "CartPole-v1"},
      {"UnknownAlgorithm", flag("--algo", "dqn"), "", 2, "expected ppo"},
      {"NegativeSeed", flag("--seed", "-1"), "", 2, "seed = -1"},
      {"SeedOfAnotherType", flag("--seed", "one"), "", 2, "expected an integer"},
      {"SeedTooLarge", flag("--seed", "99999999999999999999"), "", 2, "seed ="},
      {"NoSteps", flag("--total-steps", "0"), "", 2, "total_steps = 0"},
      {"FractionOfAStep", flag("--total-steps", "1.5"), "", 2, "total_steps = 1.5"},
      {"NoEnvs", flag("--num-envs", "0"), "", 2, "num_envs = 0"},
      {"TooManyEnvs", flag("--num-envs", "1e12"), "", 2, "num_envs = 1e12"},
      {"NoRollout", flag("--rollout-steps", "0"), "", 2, "rollout_steps = 0"},
      {"ShardsThatDoNotDivide", flag("--shards", "3"), "", 2, "does not divide into 3 shards"},
      {"NoShards", flag("--shards", "0"), "", 2, "shards = 0"},
      {"MoreReplicasThanShards", {"train", "--env", "CartPole-v1", "--shards", "1", "--devices", "cpu:2"}, "", 2, "2"},
      {"MinibatchesThatDoNotDivide", flag("--minibatches", "7"), "", 2, "does not divide the 256 rows"},
      {"MinibatchLargerThanTheRollout", flag("--minibatch-size", "512"), "", 2, "ppo.minibatch_size = 512"},
      {"BothMinibatches",
       {"train", "--env", "CartPole-v1", "--minibatches", "4", "--minibatch-size", "64"},
       "",
       2,
       "contradicts"},
      {"NoEpochs", flag("--epochs", "0"), "", 2, "ppo.epochs = 0"},
      {"UnknownDevice", flag("--devices", "tpu:1"), "", 2, "tpu:1"},
      {"NoCudaHere", flag("--devices", "cuda:63"), "", 2, "cuda"},
      {"NoCpus", flag("--devices", "cpu:0"), "", 2, "cpu:0"},
      {"UnknownResume", flag("--resume", "yes"), "", 2, "never, auto or must"},
      {"MustResumeWithoutFolder", flag("--resume", "must"), "", 2, "--run-dir"},
      {"SetWithoutValue", set("gamma"), "", 2, "expected key=value"},
      {"SetOfAnUnknownKey", set("gamma=0.9"), "", 2, "ppo.gamma"},
      {"SetOfASection", set("ppo=3"), "", 2, "this is a section"},
      {"GammaAboveOne", set("ppo.gamma=1.5"), "", 2, "from 0 to 1"},
      {"LearningRateNan", set("ppo.learning_rate=nan"), "", 2, "ppo.learning_rate = nan"},
      {"LearningRateZero", set("ppo.learning_rate=0"), "", 2, "above 0"},
      {"NegativeEntropy", set("ppo.entropy_coef=-1"), "", 2, "at least 0"},
      {"UnknownSchedule", set("ppo.clip_range_schedule=cosine"), "", 2, "constant or linear"},
      {"UnknownActivation", set("policy.activation=swish"), "", 2, "tanh, relu"},
      {"LayerOfNoUnits", set("policy.hidden=64,0"), "", 2, "policy.hidden"},
      {"HeadThatDoesNotFit", set("policy.head=normal"), "", 2, "normal"},
      {"OptionWithoutEffect", set("policy.sde_sample_freq=8"), "", 2, "has no effect"},
      {"NoFile", {"train", "/nowhere/a.yaml"}, "", 2, "/nowhere/a.yaml"},
      {"AFolderAsFile", {"train", "DIR"}, "", 2, "is a folder"},
      yaml("YamlSyntax", "env: [CartPole-v1\n", "train.yaml:2"),
      yaml("YamlList", "- env\n", "found a list"),
      yaml("YamlText", "CartPole-v1\n", "found text"),
      yaml("YamlDocuments", "env: CartPole-v1\n---\nseed: 1\n", "2 YAML documents"),
      yaml("YamlDuplicate", "env: CartPole-v1\nseed: 1\nseed: 2\n", "given already"),
      yaml("YamlUnknownSection", "env: CartPole-v1\npolicies: {hidden: [1]}\n", "policies"),
      yaml("YamlMappingAsValue", "env: CartPole-v1\nseed: {a: 1}\n", "seed = {...}"),
      yaml("YamlListAsValue", "env: CartPole-v1\nseed: [1, 2]\n", "seed = [1, 2]"),
      yaml("YamlNull", "env: CartPole-v1\nseed:\n", "seed = null"),
      yaml("YamlSwitch", "env: CartPole-v1\nnormalize.rewards: maybe\n", "true or false"),
      yaml("YamlBinary", std::string("env: \0\x01", 7), "zero byte"),
      yaml("PluginThatIsMissing", "env: CartPole-v1\nplugins: [missing.so]\n", "missing.so"),
      {"PluginThatIsNone", {"train", "--env", "CartPole-v1", "--plugin", "FILE"}, "no library", 2, "train.yaml"},
      {"FolderThatCannotBe", flag("--run-dir", "/proc/tandem"), "", 3, "/proc/tandem"},
      {"FolderThatIsAFile", flag("--run-dir", "FILE"), "x", 2, "train.yaml"},
      {"FolderOfOthers", flag("--run-dir", "/etc"), "", 2, "/etc"},
      {"ResumeNothing", {"resume", "/nowhere"}, "", 2, "no run folder /nowhere"},
      {"ResumeAnEmptyFolder", {"resume", "DIR"}, "", 2, "holds no run yet"},
      {"ResumeWithAnotherFlag", {"resume", "DIR", "--num-envs", "3"}, "", 2, "--num-envs"},
      {"EvalNothing", {"eval", "/nowhere"}, "", 2, "/nowhere"},
      {"EvalNoEpisodes", {"eval", "DIR", "--episodes", "0"}, "", 2, "--episodes 0"},
      {"InspectNothing", {"inspect", "DIR"}, "", 2, "neither a run folder nor a checkpoint"},
      {"PlotNothing", {"plot", "DIR", "-o", "a.png"}, "", 2, "holds no run yet"},
      {"PlotWithoutOutput", {"plot", "DIR"}, "", 2, "--output"},
      {"ExportAnotherFormat", {"export", "DIR", "-o", "a.onnx"}, "", 2, "a.onnx"},
      {"EnvsUnknown", {"envs", "CartPol-v1"}, "", 2, "CartPole-v1"},
  };
  return all;
}

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsNamed) {
  const BadInput& bad = GetParam();
  const TemporaryFolder temporary;
  const std::filesystem::path file = temporary / "train.yaml", folder = temporary / "folder";
  write_file(file, bad.yaml);
  std::filesystem::create_directory(folder);
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(temporary.path());
  std::vector<std::string> arguments = bad.arguments;
  for (std::string& argument : arguments) {
    if (argument == "FILE") argument = file;
    if (argument == "DIR") argument = folder;
  }
  std::vector<const char*> argv{"tandem"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStderr();
  const int code = run_program(static_cast<int>(argv.size()), argv.data(), rl::EnvRegistry::native());
  const std::string message = testing::internal::GetCapturedStderr();
  std::filesystem::current_path(here);
  EXPECT_FALSE(std::filesystem::exists(temporary / "runs")) << "a run was begun";
  EXPECT_EQ(code, bad.code) << message;
  EXPECT_THAT(message, testing::HasSubstr(bad.named));
  EXPECT_THAT(message, testing::StartsWith("tandem: "));
}

INSTANTIATE_TEST_SUITE_P(All, BadInputTest, testing::ValuesIn(bad_inputs()),
                         [](const auto& input) { return std::string(input.param.name); });

}  // namespace
}  // namespace tandem::app
