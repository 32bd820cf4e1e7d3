#include "tandem/rl/policy/mlp_policy.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/actor/actor.h"

namespace tandem::rl {
namespace {

Spec spec_for(ActionSpace action) {
  return {.id = "Test-v0", .observation = {{.shape = {4}}}, .action = std::move(action)};
}
const Box kThreeActions{{-1, -1, -1}, {1, 1, 1}};

std::vector<std::string> names(const torch::nn::Module& module) {
  std::vector<std::string> all;
  for (const auto& item : module.named_parameters()) all.push_back(item.key());
  return all;
}

TEST(MlpPolicyTest, SeparateTrunksAreTwoNetworks) {
  MlpPolicy policy(spec_for(Discrete{2}), {}, model::seeded(1));
  EXPECT_EQ(names(policy),
            (std::vector<std::string>{"actor.0.weight", "actor.0.bias", "actor.1.weight", "actor.1.bias",
                                      "actor.2.weight", "actor.2.bias", "critic.0.weight", "critic.0.bias",
                                      "critic.1.weight", "critic.1.bias", "critic.2.weight", "critic.2.bias"}));
  const at::Tensor x = at::randn({5, 4}, model::seeded(2));
  const PolicyOutput output = policy.forward({x});
  const auto parameter = [&](const std::string& name) { return policy.named_parameters()[name]; };
  const auto by_hand = [&](const std::string& net) {
    at::Tensor h = at::tanh(at::matmul(x, parameter(net + ".0.weight").t()) + parameter(net + ".0.bias"));
    h = at::tanh(at::matmul(h, parameter(net + ".1.weight").t()) + parameter(net + ".1.bias"));
    return at::matmul(h, parameter(net + ".2.weight").t()) + parameter(net + ".2.bias");
  };
  ASSERT_EQ(output.action_parameters.size(), 1U);
  EXPECT_TRUE(at::allclose(output.action_parameters[0], by_hand("actor"), 1e-5, 1e-6));
  EXPECT_EQ(output.value.sizes(), (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(at::allclose(output.value, by_hand("critic").squeeze(1), 1e-5, 1e-6));
}

TEST(MlpPolicyTest, SharedTrunksServeBothHeads) {
  MlpPolicy policy(spec_for(Discrete{2}), {.hidden = {8}, .trunks = Trunks::kShared}, model::seeded(1));
  EXPECT_EQ(names(policy), (std::vector<std::string>{"trunk.0.weight", "trunk.0.bias", "actor.0.weight", "actor.0.bias",
                                                     "critic.0.weight", "critic.0.bias"}));
  policy.forward({at::randn({5, 4})}).value.sum().backward();
  EXPECT_GT(policy.named_parameters()["trunk.0.weight"].grad().abs().sum().item<float>(), 0);
  EXPECT_FALSE(policy.named_parameters()["actor.0.weight"].grad().defined());
}

TEST(MlpPolicyTest, WeightsStartOrthogonalWithTheirGains) {
  MlpPolicy policy(spec_for(Discrete{2}), {}, model::seeded(3));
  const auto gram = [&](const std::string& name, std::int64_t of) {
    const at::Tensor w = policy.named_parameters()[name].detach();
    return of == 0 ? at::matmul(w, w.t()) : at::matmul(w.t(), w);
  };
  EXPECT_TRUE(at::allclose(gram("actor.0.weight", 1), 2 * at::eye(4), 0, 1e-5));
  EXPECT_TRUE(at::allclose(gram("critic.1.weight", 0), 2 * at::eye(64), 0, 1e-5));
  EXPECT_TRUE(at::allclose(gram("actor.2.weight", 0), 1e-4 * at::eye(2), 0, 1e-9));
  EXPECT_TRUE(at::allclose(gram("critic.2.weight", 0), at::eye(1), 0, 1e-5));
  for (const auto& item : policy.named_parameters()) {
    if (item.value().dim() == 1) {
      EXPECT_EQ(item.value().abs().sum().item<float>(), 0) << item.key();
    }
  }
}

TEST(MlpPolicyTest, EqualGeneratorsGiveEqualParametersWhateverTheDefaultGeneratorDoes) {
  torch::manual_seed(1);
  MlpPolicy one(spec_for(kThreeActions), {}, model::seeded(4));
  torch::manual_seed(2);
  MlpPolicy two(spec_for(kThreeActions), {}, model::seeded(4)), other(spec_for(kThreeActions), {}, model::seeded(5));
  for (const auto& item : one.named_parameters()) {
    EXPECT_TRUE(item.value().equal(two.named_parameters()[item.key()])) << item.key();
  }
  EXPECT_FALSE(one.named_parameters()["actor.1.weight"].equal(other.named_parameters()["actor.1.weight"]));
}

TEST(MlpPolicyTest, EveryFamilyGivesItsParametersAndDistribution) {
  const auto shapes = [](const ActionSpace& space, std::optional<ActionFamily> family) {
    MlpPolicy policy(spec_for(space), {.hidden = {8, 6}, .family = family, .log_std_init = -0.5}, model::seeded(6));
    const PolicyOutput output = policy.forward({at::randn({5, 4})});
    EXPECT_EQ(policy.distribution(output)->mode().size(0), 5);
    std::vector<std::vector<std::int64_t>> all;
    for (const at::Tensor& tensor : output.action_parameters) all.push_back(tensor.sizes().vec());
    return all;
  };
  using Shapes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(shapes(Discrete{3}, {}), (Shapes{{5, 3}}));
  EXPECT_EQ(shapes(MultiDiscrete{{3, 2}}, {}), (Shapes{{5, 5}}));
  EXPECT_EQ(shapes(kThreeActions, {}), (Shapes{{5, 3}, {3}}));
  EXPECT_EQ(shapes(kThreeActions, ActionFamily::kSquashedNormal), (Shapes{{5, 3}, {3}}));
  EXPECT_EQ(shapes(kThreeActions, ActionFamily::kStateDependentNoise), (Shapes{{5, 3}, {5, 6}, {6, 3}}));
}

TEST(MlpPolicyTest, LogStdStartsAsAskedAndLearns) {
  MlpPolicy policy(spec_for(kThreeActions), {.log_std_init = -0.5}, model::seeded(7));
  EXPECT_TRUE(policy.log_std().equal(at::full({3}, -0.5F)));
  const PolicyOutput output = policy.forward({at::randn({5, 4})});
  policy.distribution(output)->entropy().sum().backward();
  EXPECT_TRUE(policy.log_std().grad().equal(at::full({3}, 5.0F)));
}

TEST(MlpPolicyTest, NoiseDoesNotShapeTheFeatures) {
  MlpPolicy policy(spec_for(kThreeActions), {.family = ActionFamily::kStateDependentNoise}, model::seeded(8));
  const PolicyOutput output = policy.forward({at::randn({5, 4})});
  policy.distribution(output)->entropy().sum().backward();
  EXPECT_TRUE(policy.log_std().grad().defined());
  EXPECT_FALSE(policy.named_parameters()["actor.1.weight"].grad().defined());
}

TEST(MlpPolicyTest, ActivationsAreThoseOfTheirNames) {
  const at::Tensor x = at::linspace(-3, 3, 13);
  EXPECT_TRUE(activate(activation("tanh"), x).equal(torch::tanh(x)));
  EXPECT_TRUE(activate(activation("relu"), x).equal(torch::relu(x)));
  EXPECT_TRUE(activate(activation("silu"), x).equal(torch::silu(x)));
  EXPECT_TRUE(activate(activation("gelu"), x).equal(torch::gelu(x)));
  EXPECT_TRUE(activate(activation("elu"), x).equal(torch::elu(x)));
  EXPECT_THROW((void)activation("swish"), ConfigError);
  EXPECT_EQ(trunks("shared"), Trunks::kShared);
  EXPECT_THROW((void)trunks("joint"), ConfigError);
}

TEST(MlpPolicyTest, AllFaultsOfTheOptionsAreReportedTogether) {
  try {
    MlpPolicy policy(spec_for(kThreeActions), {.hidden = {64, 0}, .log_std_init = NAN, .hidden_gain = -1},
                     model::seeded(9));
    FAIL() << "must throw";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 3U) << error.what();
  }
  EXPECT_THROW(MlpPolicy(spec_for(kThreeActions), {.family = ActionFamily::kCategorical}, model::seeded(9)),
               ConfigError);
}

TEST(MlpPolicyTest, NoHiddenLayersGiveALinearPolicy) {
  MlpPolicy policy(spec_for(Discrete{2}), {.hidden = {}}, model::seeded(10));
  EXPECT_EQ(names(policy).size(), 4U);
  EXPECT_EQ(policy.forward({at::randn({5, 4})}).action_parameters[0].size(1), 2);
}

// The class of policy.h's example, for a vector.
struct OwnPolicy : ActorCritic {
  explicit OwnPolicy(const Spec& spec) : ActorCritic(spec) {
    register_module("pi", pi);
    register_module("v", v);
  }
  PolicyOutput forward(const Observation& observation) override {
    return {{pi(observation[0])}, v(observation[0]).squeeze(1)};
  }
  torch::nn::Linear pi{4, 3}, v{4, 1};
};

TEST(ActorCriticTest, AnOwnModuleNeedsOnlyItsForward) {
  const PolicyFactory factory = [](const Spec& spec, at::Generator) { return std::make_shared<OwnPolicy>(spec); };
  const auto policy = factory(spec_for(Discrete{3}), model::seeded(11));
  const PolicyOutput output = policy->forward({at::randn({5, 4})});
  const at::Tensor mask = torch::tensor({1, 1, 0}, at::kByte).repeat({5, 1});
  const auto d = policy->distribution(output, mask);
  EXPECT_EQ(d->log_prob(at::full({5}, 2, at::kLong)).max().item<float>(), -INFINITY);
  EXPECT_THROW((void)policy->script(), ConfigError);
}

TEST(ActorCriticTest, AForwardThatDoesNotFitTheSpecIsNamed) {
  OwnPolicy policy(spec_for(Discrete{2}));  // its head has three outputs
  EXPECT_THROW((void)policy.distribution(policy.forward({at::randn({5, 4})})), ConfigError);
}

// A module of the user's own that forgets to squeeze, or has a value for each action.
class ValueOf final : public ActorCritic {
 public:
  ValueOf(const Spec& spec, std::int64_t columns) : ActorCritic(spec), columns_(columns) {
    head_ = register_parameter("head", at::zeros({1}));
  }
  PolicyOutput forward(const Observation& observation) override {
    const std::int64_t rows = observation[0].size(0);
    return {.action_parameters = {at::zeros({rows, 2}) + head_}, .value = at::zeros({rows, columns_}) + head_};
  }

 private:
  const std::int64_t columns_;
  at::Tensor head_;
};

TEST(ActorCriticTest, AValueThatIsNotOneNumberARowIsNamedBeforeItIsWritten) {
  const Spec spec = spec_for(Discrete{2});
  for (const std::int64_t columns : {1, 2}) {
    ValueOf policy(spec, columns);
    const auto actor = make_actor(policy, {}, 5, 0, 0);
    actor->refresh();
    std::vector<std::int64_t> action(5);
    std::vector<float> log_prob(5), value(5);
    const std::string message = message_of<ConfigError>([&] {
      actor->act({at::randn({5, 4})}, {},
                 {.discrete = action.data(), .log_prob = log_prob.data(), .value = value.data()});
    });
    EXPECT_NE(message.find(columns == 1 ? "a value of [5, 1] for 5 rows, and it must be [5]" : "a value of [5, 2]"),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("squeeze(1)") != std::string::npos, columns == 1) << message;
  }
}

}  // namespace
}  // namespace tandem::rl
