#include "tandem/rl/policy/policy_export.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/script.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

Spec spec_with(ActionSpace action) {
  return {.id = "Test-v0", .observation = {{.shape = {3}}}, .action = std::move(action)};
}
const Box kUnevenBox{{-2, -1}, {1, 3}};

// Gains of 1, so that outputs differ from row to row.
MlpPolicyOptions lively(std::optional<ActionFamily> family = {}) {
  return {.hidden = {16}, .family = family, .log_std_init = -0.3, .policy_gain = 3};
}

// Saves, loads again and returns the loaded module.
torch::jit::Module round_trip(const ActorCritic& policy, const Normalizers* normalizers = nullptr) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "policy.pt";
  export_script(policy, normalizers, path);
  return torch::jit::load(path.string());
}

void expect_forward(torch::jit::Module& script, MlpPolicy& policy, const at::Tensor& raw, const at::Tensor& seen) {
  const PolicyOutput expected = policy.forward({seen});
  const auto result = script.forward({raw}).toTuple();
  const c10::List<at::Tensor> parameters = result->elements()[0].toTensorList();
  ASSERT_EQ(parameters.size(), expected.action_parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(parameters.get(i), expected.action_parameters[i], 1e-5, 1e-6)) << i;
  }
  EXPECT_TRUE(at::allclose(result->elements()[1].toTensor(), expected.value, 1e-5, 1e-6));
}

TEST(ScriptExportTest, EveryFamilyComputesWhatThePolicyComputes) {
  const at::Tensor x = at::randn({20, 3}, model::seeded(1)) * 2;
  const std::vector<std::pair<ActionSpace, std::optional<ActionFamily>>> cases{
      {Discrete{4}, {}},
      {MultiDiscrete{{3, 2}}, {}},
      {kUnevenBox, {}},
      {kUnevenBox, ActionFamily::kSquashedNormal},
      {kUnevenBox, ActionFamily::kStateDependentNoise}};
  for (const auto& [space, family] : cases) {
    MlpPolicy policy(spec_with(space), lively(family), model::seeded(2));
    torch::jit::Module script = round_trip(policy);
    expect_forward(script, policy, x, x);
    at::Tensor expected = policy.distribution(policy.forward({x}))->mode();
    if (std::holds_alternative<Box>(space)) {
      expected = expected.contiguous().clone();
      to_bounds(kUnevenBox, expected.const_data_ptr<float>(), 20, expected.data_ptr<float>());
    }
    const at::Tensor action = script.get_method("act")({x}).toTensor();
    EXPECT_EQ(action.scalar_type(), expected.scalar_type());
    EXPECT_TRUE(at::allclose(action, expected, 1e-5, 1e-6)) << name_of(policy.family());
    EXPECT_FALSE((action == action[0]).all().item<bool>()) << "the same action everywhere shows nothing";
  }
}

TEST(ScriptExportTest, SharedTrunksAndEveryActivationAreExported) {
  const at::Tensor x = at::randn({6, 3}, model::seeded(3));
  for (const auto activation :
       {Activation::kTanh, Activation::kRelu, Activation::kSilu, Activation::kGelu, Activation::kElu}) {
    MlpPolicyOptions options = lively();
    options.hidden = {8, 8};
    options.activation = activation;
    options.trunks = Trunks::kShared;
    MlpPolicy policy(spec_with(Discrete{4}), options, model::seeded(4));
    torch::jit::Module script = round_trip(policy);
    expect_forward(script, policy, x, x);
  }
}

TEST(ScriptExportTest, TheNormaliserIsInside) {
  const Spec spec = spec_with(kUnevenBox);
  const NormalizerOptions options{.observations = true, .clip_observation = 1.5};
  Normalizers normalizers(spec, options);
  NormalizerMoments moments(spec, options);
  const at::Tensor x = at::randn({200, 3}, model::seeded(5)) * torch::tensor({5.0F, 0.1F, 1.0F}) + 2;
  for (std::int64_t row = 0; row < 200; ++row) moments.observation[0].add(x[row].const_data_ptr<float>());
  normalizers.merge(moments);
  normalizers.finish_merge();
  const at::Tensor seen = at::empty_like(x);
  normalizers.normalize(0, x.const_data_ptr<float>(), seen.data_ptr<float>(), 200);
  EXPECT_EQ(seen.abs().max().item<float>(), 1.5F);

  MlpPolicy policy(spec, lively(), model::seeded(6));
  torch::jit::Module script = round_trip(policy, &normalizers);
  expect_forward(script, policy, x, seen);
  torch::jit::Module without = round_trip(policy);
  expect_forward(without, policy, x, x);
}

TEST(ScriptExportTest, TheNormaliserOfFloat64IsInside) {
  Spec spec = spec_with(Discrete{4});
  spec.observation[0].type = ElementType::kFloat64;
  const NormalizerOptions options{.observations = true};
  Normalizers normalizers(spec, options);
  NormalizerMoments moments(spec, options);
  const at::Tensor x = at::randn({200, 3}, model::seeded(5), at::kDouble) + 1.7e9;
  for (std::int64_t row = 0; row < 200; ++row) moments.observation[0].add(x[row].const_data_ptr<double>());
  normalizers.merge(moments);
  normalizers.finish_merge();
  const at::Tensor seen = at::empty({200, 3});
  normalizers.normalize(0, x.const_data_ptr<double>(), seen.data_ptr<float>(), 200);
  EXPECT_GT(seen.std().item<float>(), 0.5F);

  MlpPolicy policy(spec, lively(), model::seeded(6));
  torch::jit::Module script = round_trip(policy, &normalizers);
  expect_forward(script, policy, x, seen);
}

TEST(ScriptExportTest, Float64ObservationsAreTaken) {
  MlpPolicy policy(spec_with(Discrete{4}), lively(), model::seeded(7));
  torch::jit::Module script = round_trip(policy);
  const at::Tensor x = at::randn({5, 3}, model::seeded(8));
  expect_forward(script, policy, x.to(at::kDouble), x);
}

TEST(ScriptExportTest, MasksExcludeActions) {
  const at::Tensor x = at::randn({30, 3}, model::seeded(9));
  MlpPolicy policy(spec_with(MultiDiscrete{{3, 2}}), lively(), model::seeded(10));
  torch::jit::Module script = round_trip(policy);
  at::Tensor mask = (at::rand({30, 5}, model::seeded(11)) < 0.5).to(at::kByte);
  mask.select(1, 1).fill_(1);
  mask.select(1, 4).fill_(1);
  const at::Tensor action = script.get_method("act")({x, mask}).toTensor();
  EXPECT_TRUE(action.equal(policy.distribution(policy.forward({x}), mask)->mode()));
  EXPECT_FALSE(action.equal(script.get_method("act")({x}).toTensor()));
}

TEST(ScriptExportTest, SeveralLeavesOfAllTypesComeAsAList) {
  Spec spec = spec_with(Discrete{4});
  spec.observation = {{.name = "speed", .shape = {2}},
                      {.name = "pixels", .type = ElementType::kUInt8, .shape = {1, 2}},
                      {.name = "cards", .type = ElementType::kInt64, .shape = {2}, .low = {1, 0}, .high = {3, 1}}};
  MlpPolicy policy(spec, lively(), model::seeded(12));
  torch::jit::Module script = round_trip(policy);
  const Observation rows{at::randn({2, 2}), torch::tensor({{{0, 255}}, {{51, 102}}}, at::kByte),
                         torch::tensor({{1, 1}, {3, 0}}, at::kLong)};
  const PolicyOutput expected = policy.forward(rows);
  const auto result = script.forward({c10::List<at::Tensor>(rows)}).toTuple();
  EXPECT_TRUE(at::allclose(result->elements()[0].toTensorList().get(0), expected.action_parameters[0], 1e-5, 1e-6));
}

TEST(ScriptExportTest, TheFileDoesNotFollowThePolicy) {
  MlpPolicy policy(spec_with(Discrete{4}), lively(), model::seeded(13));
  const torch::jit::Module script = make_script(policy, nullptr);
  at::NoGradGuard no_grad;
  const at::Tensor before = script.attr("log_std", at::Tensor()).toTensor();
  const at::Tensor weight = script.attr("actor").toModule().attr("_0").toModule().attr("weight").toTensor().clone();
  policy.named_parameters()["actor.0.weight"].zero_();
  EXPECT_TRUE(script.attr("actor").toModule().attr("_0").toModule().attr("weight").toTensor().equal(weight));
  EXPECT_FALSE(before.defined());
}

struct ScriptedPolicy : ActorCritic {
  ScriptedPolicy(const Spec& spec, std::string source) : ActorCritic(spec), source_(std::move(source)) {
    register_module("net", net);
  }
  PolicyOutput forward(const Observation& observation) override {
    const at::Tensor y = net->forward(observation[0]);
    return {{y.slice(1, 0, 4)}, y.select(1, 4)};
  }
  [[nodiscard]] PolicyScript script() const override {
    return {.source = source_, .constants = {{"zero", at::zeros({1})}}};
  }
  torch::nn::Sequential net{torch::nn::Linear(3, 7), torch::nn::ReLU(), torch::nn::Linear(7, 5)};
  std::string source_;
};

TEST(ScriptExportTest, AnOwnModuleIsExportedByItsScript) {
  ScriptedPolicy policy(spec_with(Discrete{4}), R"(
def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:
    x = torch.relu(torch.linear(observation[0] + self.zero, self.net._0.weight, self.net._0.bias))
    y = torch.linear(x, self.net._2.weight, self.net._2.bias)
    return ([y[:, 0:4]], y[:, 4])
)");
  torch::jit::Module script = round_trip(policy);
  const at::Tensor x = at::randn({5, 3});
  const auto result = script.forward({x}).toTuple();
  EXPECT_TRUE(at::allclose(result->elements()[1].toTensor(), policy.forward({x}).value, 1e-5, 1e-6));
}

TEST(ScriptExportTest, AScriptThatDoesNotCompileIsAConfigError) {
  ScriptedPolicy nonsense(spec_with(Discrete{4}),
                          "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n"
                          "    return self.missing\n");
  EXPECT_THROW((void)make_script(nonsense, nullptr), ConfigError);
  ScriptedPolicy syntax(spec_with(Discrete{4}), "def policy(self");
  EXPECT_THROW((void)make_script(syntax, nullptr), ConfigError);
}

TEST(ScriptExportTest, AFolderThatIsNotThereIsACheckpointError) {
  MlpPolicy policy(spec_with(Discrete{4}), lively(), model::seeded(14));
  EXPECT_THROW(export_script(policy, nullptr, "/nonexistent/folder/policy.pt"), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
