// The portable reference has the bits of what acts in training, with the portable instruction set.
#include "tandem/rl/policy/export/portable_policy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/actor/actors.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kReferenceRows = 40;

Spec reference_spec(ActionSpace action) {
  return {.id = "Test-v0", .observation = {{.shape = {3}}}, .action = std::move(action)};
}

void stir(ActorCritic& policy) {
  torch::manual_seed(4);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : policy.parameters()) parameter.add_(at::randn_like(parameter), 0.1);
}

// The actions of an actor that takes the mode, [rows, elements].
at::Tensor actions_of(Actor& actor, const Spec& spec, const at::Tensor& x, const at::Tensor& mask = {}) {
  const std::int64_t size = action_elements(spec.action);
  const auto* box = std::get_if<Box>(&spec.action);
  at::Tensor action = at::empty({kReferenceRows, size}, box != nullptr ? at::kFloat : at::kLong);
  at::Tensor log_prob = at::empty({kReferenceRows}), value = at::empty({kReferenceRows});
  actor.act({x}, mask,
            {.discrete = box == nullptr ? action.data_ptr<std::int64_t>() : nullptr,
             .box = box != nullptr ? action.data_ptr<float>() : nullptr,
             .log_prob = log_prob.data_ptr<float>(),
             .value = value.data_ptr<float>()});
  if (box != nullptr) to_bounds(*box, action.const_data_ptr<float>(), kReferenceRows, action.data_ptr<float>());
  return action;
}

PortablePolicy::Decision decide(PortablePolicy& portable, const at::Tensor& x, std::int64_t row,
                                const std::uint8_t* mask = nullptr, const float* state = nullptr) {
  const std::byte* const leaf = reinterpret_cast<const std::byte*>(x.const_data_ptr<float>() + row * x.size(1));
  return portable.act({.leaves = {&leaf, 1}, .mask = mask, .state = state});
}

at::Tensor tensor_of(const PortablePolicy::Decision& decision) {
  return decision.values.empty() ? at::tensor(decision.choices, at::kLong) : at::tensor(decision.values);
}

const Box kReferenceBox{{-2, -1}, {1, 3}};

TEST(PortablePolicyTest, ActsAsAnMlpActorDoesToTheBit) {
  const std::vector<std::pair<ActionSpace, std::optional<ActionFamily>>> cases{
      {Discrete{4}, {}},
      {MultiDiscrete{{3, 2}}, {}},
      {kReferenceBox, {}},
      {kReferenceBox, ActionFamily::kSquashedNormal},
      {kReferenceBox, ActionFamily::kStateDependentNoise}};
  const at::Tensor x = at::randn({kReferenceRows, 3}, model::seeded(1)) * 2;
  for (const auto& [space, family] : cases) {
    for (const auto activation :
         {Activation::kTanh, Activation::kRelu, Activation::kSilu, Activation::kGelu, Activation::kElu}) {
      MlpPolicy policy(reference_spec(space),
                       {.hidden = {20, 9}, .activation = activation, .family = family, .policy_gain = 3},
                       model::seeded(2));
      stir(policy);
      MlpActor actor(policy, {.acting = Acting::kMode, .instruction_set = InstructionSet::kPortable}, kReferenceRows,
                     1);
      const at::Tensor expected = actions_of(actor, policy.spec(), x);
      PortablePolicy portable({.policy = policy});
      for (std::int64_t row = 0; row < kReferenceRows; ++row)
        ASSERT_TRUE(tensor_of(decide(portable, x, row)).equal(expected[row]))
            << name_of(policy.family()) << " " << name_of(activation) << ", row " << row;
    }
  }
}

TEST(PortablePolicyTest, RemembersAsARecurrentActorDoesToTheBit) {
  for (const auto cell : {CellKind::kLstm, CellKind::kGru}) {
    for (const auto trunks : {Trunks::kShared, Trunks::kSeparate}) {
      RecurrentPolicy policy(reference_spec(kReferenceBox),
                             {.mlp = {.hidden = {7}, .trunks = trunks, .policy_gain = 2}, .cell = cell, .size = 19},
                             model::seeded(3));
      stir(policy);
      RecurrentActor actor(policy, {.acting = Acting::kMode, .instruction_set = InstructionSet::kPortable},
                           kReferenceRows, 1);
      PortablePolicy portable({.policy = policy});
      std::vector<std::vector<float>> states(kReferenceRows,
                                             std::vector<float>(static_cast<std::size_t>(portable.state_size())));
      for (int step = 0; step < 5; ++step) {
        const at::Tensor x = at::randn({kReferenceRows, 3}, model::seeded(10 + static_cast<std::uint64_t>(step)));
        const at::Tensor expected = actions_of(actor, policy.spec(), x);
        for (std::int64_t row = 0; row < kReferenceRows; ++row) {
          std::vector<float>& state = states[static_cast<std::size_t>(row)];
          const PortablePolicy::Decision decision = decide(portable, x, row, nullptr, state.data());
          ASSERT_TRUE(tensor_of(decision).equal(expected[row])) << "step " << step << ", row " << row;
          state = decision.next_state;
          ASSERT_TRUE(at::tensor(state).equal(actor.state()[row].narrow(0, 0, portable.state_size())));
        }
      }
    }
  }
}

TEST(PortablePolicyTest, MasksAndNormalisersCount) {
  const Spec spec = reference_spec(Discrete{4});
  const NormalizerOptions options{.observations = true, .clip_observation = 1.5};
  Normalizers normalizers(spec, options);
  NormalizerMoments moments(spec, options);
  const at::Tensor x = at::randn({kReferenceRows, 3}, model::seeded(5)) * 4 + 2;
  for (std::int64_t row = 0; row < kReferenceRows; ++row) moments.observation[0].add(x[row].const_data_ptr<float>());
  normalizers.merge(moments);
  normalizers.finish_merge();
  const at::Tensor seen = at::empty_like(x);
  normalizers.normalize(0, x.const_data_ptr<float>(), seen.data_ptr<float>(), kReferenceRows);
  at::Tensor mask = (at::rand({kReferenceRows, 4}, model::seeded(6)) < 0.5).to(at::kByte);
  mask.select(1, 2).fill_(1);

  MlpPolicy policy(spec, {.policy_gain = 3}, model::seeded(7));
  MlpActor actor(policy, {.acting = Acting::kMode, .instruction_set = InstructionSet::kPortable}, kReferenceRows, 1);
  const at::Tensor expected = actions_of(actor, policy.spec(), seen, mask);
  EXPECT_FALSE(expected.equal(actions_of(actor, policy.spec(), seen))) << "the mask decides nothing";
  PortablePolicy portable({.policy = policy, .normalizers = &normalizers});
  for (std::int64_t row = 0; row < kReferenceRows; ++row)
    EXPECT_TRUE(
        tensor_of(decide(portable, x, row, mask.const_data_ptr<std::uint8_t>() + 4 * row)).equal(expected[row]));
}

TEST(PortablePolicyTest, ConvolutionsAreAConfigError) {
  Spec spec = reference_spec(Discrete{4});
  spec.observation = {{.name = "eye", .type = ElementType::kUInt8, .shape = {1, 8, 8}}};
  MlpPolicy policy(spec, {.torso = {.channels = {4}, .blocks = 0}}, model::seeded(8));
  EXPECT_THROW(PortablePolicy({.policy = policy}), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
