// What is said of observations and rewards that are finite, but too large to learn of, when a run stops of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <array>
#include <memory>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Shows ones in two leaves, but for element 1 of the second, which is absurd in step 3 of each episode.
struct Glitch {
  using Shown = std::pair<float, std::array<float, 2>>;
  static Spec spec() {
    return {.id = "Glitch-v0",
            .observation = {{.name = "calm", .shape = {1}}, {.name = "torn", .shape = {2}}},
            .action = Discrete{2},
            .max_episode_steps = 50};
  }
  Shown reset(NumpyGenerator&) {
    steps = 0;
    return {1.0F, {1.0F, 1.0F}};
  }
  StepResult<Shown> step(std::int64_t) {
    ++steps;
    return {{1.0F, {1.0F, steps == 3 ? number : 1.0F}}, 1.0};
  }
  int steps = 0;
  static inline float number = 1;
};

template <typename Setup>
Setup setup_of(LossKernel kernel, Activation activation) {
  Setup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = 2;
  setup.devices = {c10::Device(c10::kCPU)};
  setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Glitch>>(count); };
  setup.make_policy = mlp_policy_factory({.hidden = {8}, .activation = activation});
  if constexpr (requires { setup.ppo; }) {
    setup.ppo.num_envs = 4;
    setup.ppo.rollout_steps = 8;
    setup.ppo.minibatches = 1;
    setup.ppo.kernel = kernel;
  } else {
    setup.impala.num_envs = 4;
    setup.impala.rollout_steps = 8;
    setup.impala.execution = ImpalaExecution::kInline;
    setup.impala.kernel = kernel;
  }
  return setup;
}

template <typename Run, typename Setup>
std::string failure_of(Setup setup) {
  try {
    Run run(std::move(setup));
    for (int update = 0; update < 4; ++update) (void)run.update();
  } catch (const RunError& error) {
    return error.what();
  }
  return "nothing failed";
}

ImpalaSetup with_appo(ImpalaSetup setup) {
  setup.appo.emplace();
  return setup;
}

// The value of a policy with ReLU grows with the observation, and its square is beyond float32.
TEST(AbsurdNumbersTest, AnObservationBehindAnInfiniteLossIsNamedByLeafElementAndRow) {
  Glitch::number = 1e30F;
  const auto is_named = AllOf(HasSubstr("observation leaf 'torn' in row "), HasSubstr(", element 1 of the shard "),
                              HasSubstr(", step 3 of the rollout, from 0) is 1e+30"),
                              HasSubstr("normalize.observations: true"), Not(HasSubstr("learning rate")));
  for (const LossKernel kernel : {LossKernel::kAuto, LossKernel::kOff}) {
    EXPECT_THAT(failure_of<PpoRun>(setup_of<PpoSetup>(kernel, Activation::kRelu)), is_named);
    EXPECT_THAT(failure_of<ImpalaRun>(setup_of<ImpalaSetup>(kernel, Activation::kRelu)), is_named);
    EXPECT_THAT(failure_of<ImpalaRun>(with_appo(setup_of<ImpalaSetup>(kernel, Activation::kRelu))), is_named);
  }
}

// The value itself is infinite then, which comes of the observation.
TEST(AbsurdNumbersTest, AnObservationIsNamedBeforeWhatWasComputedOfIt) {
  Glitch::number = 3e38F;
  PpoSetup setup = setup_of<PpoSetup>(LossKernel::kAuto, Activation::kRelu);
  setup.make_policy =
      mlp_policy_factory({.hidden = {8}, .activation = Activation::kRelu, .policy_gain = 1e-9, .value_gain = 100});
  EXPECT_THAT(failure_of<PpoRun>(std::move(setup)),
              AllOf(HasSubstr("the loss of minibatch 0 is"), HasSubstr("observation leaf 'torn' in row "),
                    HasSubstr("is 3e+38, whose square is beyond float32")));
}

// Beyond float32 already while acting.
TEST(AbsurdNumbersTest, AnObservationBehindAnActionThatIsNotFiniteIsNamed) {
  Glitch::number = 3e38F;
  PpoSetup setup = setup_of<PpoSetup>(LossKernel::kAuto, Activation::kRelu);
  setup.make_policy = mlp_policy_factory({.hidden = {8}, .activation = Activation::kRelu, .policy_gain = 100});
  EXPECT_THAT(failure_of<PpoRun>(std::move(setup)),
              AllOf(HasSubstr("likely since element 1 of the observation leaf 'torn' is 3e+38 in row "),
                    HasSubstr("normalize.observations: true")));
}

}  // namespace
}  // namespace tandem::rl
