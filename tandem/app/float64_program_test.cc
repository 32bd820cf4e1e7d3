// The program on observations of float64: what is learned of them, and what is said where they are narrowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_concepts.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A clock of even or odd seconds, far from its start; naming which of the two it is pays 1. As float32 they are equal.
struct Seconds {
  static rl::Spec spec() {
    return {.id = "Seconds-v0",
            .observation = {{.name = "clock", .type = rl::ElementType::kFloat64, .shape = {}}},
            .action = rl::Discrete{2},
            .max_episode_steps = 20};
  }
  double reset(rl::NumpyGenerator& its) {
    random = &its;
    return now();
  }
  rl::StepResult<double> step(std::int64_t action) {
    const double reward = action == odd ? 1 : 0;
    return {.observation = now(), .reward = reward};
  }
  double now() {
    odd = random->integers(0, 2);
    return 1.7e9 + static_cast<double>(odd);
  }
  rl::NumpyGenerator* random = nullptr;
  std::int64_t odd = 0;
};

class Float64ProgramTest : public ::testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& arguments) {
    rl::EnvRegistry environments = rl::EnvRegistry::native();
    environments.add<Seconds>();
    return run_captured(arguments, environments);
  }
  Outcome train(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "--env",     "Seconds-v0",      "--num-envs",
                                       "8",     "--run-dir", folder / name,     "--rollout-steps",
                                       "32",    "--set",     "policy.hidden=16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  TemporaryFolder folder;
};

TEST_F(Float64ProgramTest, WhatFloat32DoesNotTellApartIsLearnedAndPlayed) {
  ASSERT_EQ(train("a", {"--total-steps", "12288", "--set", "ppo.learning_rate=0.01"}).code, 0);
  EXPECT_THAT(read_file(folder / "a/config.yaml"), HasSubstr("observations: true")) << "auto is true for float64";
  const Outcome played = run({"eval", folder / "a", "--episodes", "8", "--json"});
  ASSERT_EQ(played.code, 0) << played.err;
  EXPECT_GT(read_json(played.out).at("return_mean").as_double(), 18);
}

TEST_F(Float64ProgramTest, WhatIsLostWithoutANormaliserIsSaidOnce) {
  for (const char* algo : {"ppo", "impala", "appo"}) {
    const Outcome trained =
        train(algo, {"--algo", algo, "--total-steps", "8192", "--set", "normalize.observations=false"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const std::string said = "its element 0 moved by 1 around 1.7e+09 in the first ";
    const std::string log = read_file(folder / algo / "log.txt");
    EXPECT_THAT(log, AllOf(HasSubstr("leaf 'clock'"), HasSubstr(said), HasSubstr("float32 has steps of 128")));
    EXPECT_EQ(log.find(said), log.rfind(said));
  }
}

}  // namespace
}  // namespace tandem::app
