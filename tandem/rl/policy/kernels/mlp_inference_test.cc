#include "tandem/rl/policy/kernels/mlp_inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::rl {
namespace {

Spec spec_of(std::int64_t features, ActionSpace action) {
  return {.id = "Test-v0", .observation = {{.shape = {features}}}, .action = std::move(action)};
}

struct Result {
  at::Tensor head, value, latent;
};

Result run(MlpInference& inference, const at::Tensor& features) {
  const std::int64_t rows = features.size(0);
  Result result{at::empty({rows, inference.head_size()}), at::empty({rows}),
                at::empty({rows, inference.latent_size()})};
  inference.run(features.const_data_ptr<float>(), rows,
                {result.head.data_ptr<float>(), result.value.data_ptr<float>(), result.latent.data_ptr<float>()});
  return result;
}

// Biases start at zero and heads almost so; noise makes every parameter count.
std::shared_ptr<MlpPolicy> perturbed_policy(const Spec& spec, const MlpPolicyOptions& options, std::uint64_t seed) {
  const auto policy = std::make_shared<MlpPolicy>(spec, options, model::seeded(seed));
  at::NoGradGuard no_grad;
  const at::Generator generator = model::seeded(seed + 1000);
  for (const at::Tensor& parameter : policy->parameters()) {
    parameter.add_(at::randn(parameter.sizes(), generator), 0.1);
  }
  return policy;
}

TEST(MlpInferenceTest, EqualsForwardForAnyShapeTrunkAndActivation) {
  const std::vector<std::vector<std::int64_t>> hiddens{{64, 64}, {}, {7}, {33, 50, 17}, {128}};
  std::uint64_t seed = 0;
  for (const auto& hidden : hiddens) {
    for (const auto trunks : {Trunks::kSeparate, Trunks::kShared}) {
      for (const auto activation :
           {Activation::kTanh, Activation::kRelu, Activation::kSilu, Activation::kGelu, Activation::kElu}) {
        ++seed;
        const std::int64_t features = 1 + static_cast<std::int64_t>(seed * 7 % 40),
                           rows = 1 + static_cast<std::int64_t>(seed * 5 % 37);
        const auto policy = perturbed_policy(spec_of(features, Discrete{1 + static_cast<std::int64_t>(seed % 19)}),
                                             {.hidden = hidden, .activation = activation, .trunks = trunks}, seed);
        const at::Tensor x = at::randn({rows, features}, model::seeded(seed));
        const PolicyOutput expected = policy->forward({x});
        for (const auto set : {InstructionSet::kPortable, detect_instruction_set()}) {
          MlpInference inference(*policy, rows, set);
          const Result result = run(inference, x);
          EXPECT_TRUE(at::allclose(result.head, expected.action_parameters[0], 1e-5, 1e-5))
              << seed << " " << (result.head - expected.action_parameters[0]).abs().max().item<float>();
          EXPECT_TRUE(at::allclose(result.value, expected.value, 1e-5, 1e-5)) << seed;
        }
      }
    }
  }
}

TEST(MlpInferenceTest, GivesTheLatentOfStateDependentNoise) {
  for (const auto trunks : {Trunks::kSeparate, Trunks::kShared}) {
    const auto policy =
        perturbed_policy(spec_of(5, Box{{-1, -1}, {1, 1}}),
                         {.hidden = {24}, .trunks = trunks, .family = ActionFamily::kStateDependentNoise}, 1);
    MlpInference inference(*policy, 8, detect_instruction_set());
    const at::Tensor x = at::randn({8, 5});
    const PolicyOutput expected = policy->forward({x});
    const Result result = run(inference, x);
    EXPECT_TRUE(at::allclose(result.head, expected.action_parameters[0], 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(result.latent, expected.action_parameters[1], 1e-5, 1e-5));
  }
}

TEST(MlpInferenceTest, ARowHasTheSameBitsInEveryBatch) {
  const auto policy = perturbed_policy(spec_of(6, Discrete{3}), {}, 2);
  MlpInference inference(*policy, 40, detect_instruction_set());
  const at::Tensor x = at::randn({40, 6});
  const Result all = run(inference, x);
  for (const std::int64_t rows : {1, 3, 8, 13}) {
    for (std::int64_t begin = 0; begin + rows <= 40; begin += 9) {
      const Result part = run(inference, x.slice(0, begin, begin + rows));
      EXPECT_TRUE(part.head.equal(all.head.slice(0, begin, begin + rows)));
      EXPECT_TRUE(part.value.equal(all.value.slice(0, begin, begin + rows)));
    }
  }
}

TEST(MlpInferenceTest, UsesTheParametersOfTheLastRefresh) {
  const auto policy = perturbed_policy(spec_of(4, Discrete{2}), {}, 3);
  MlpInference inference(*policy, 5, detect_instruction_set());
  const at::Tensor x = at::randn({5, 4});
  const Result before = run(inference, x);
  {
    at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : policy->parameters()) parameter.mul_(1.3);
  }
  EXPECT_TRUE(run(inference, x).value.equal(before.value));
  inference.refresh();
  EXPECT_TRUE(at::allclose(run(inference, x).value, policy->forward({x}).value, 1e-5, 1e-5));
  EXPECT_FALSE(run(inference, x).value.equal(before.value));
}

TEST(MlpInferenceTest, ComputesOnlyWhatIsAskedFor) {
  const auto policy = perturbed_policy(spec_of(4, Discrete{2}), {}, 5);
  MlpInference inference(*policy, 5, detect_instruction_set());
  const at::Tensor x = at::randn({5, 4}), value = at::empty({5}), head = at::empty({5, 2});
  const Result all = run(inference, x);
  inference.run(x.const_data_ptr<float>(), 5, {.value = value.data_ptr<float>()});
  EXPECT_TRUE(value.equal(all.value));
  inference.run(x.const_data_ptr<float>(), 5, {.head = head.data_ptr<float>()});
  EXPECT_TRUE(head.equal(all.head));
}

TEST(MlpInferenceTest, TooManyRowsAndOtherDtypesAreRefused) {
  const auto policy = perturbed_policy(spec_of(4, Discrete{2}), {}, 4);
  MlpInference inference(*policy, 5, detect_instruction_set());
  EXPECT_THROW(run(inference, at::randn({6, 4})), InvariantError);
  policy->to(at::kDouble);
  EXPECT_THROW(MlpInference(*policy, 5, detect_instruction_set()), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
