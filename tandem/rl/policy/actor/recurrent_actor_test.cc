// Policies that remember act in loops as they do by tensor operations.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/actor/actors.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kActorRows = 7;

// One step's decisions of discrete or continuous actions of one element.
struct MemoryStep {
  explicit MemoryStep(std::int64_t rows = kActorRows)
      : options(static_cast<std::size_t>(rows)),
        components(options.size()),
        log_prob(options.size()),
        value(options.size()) {}
  [[nodiscard]] Decisions decisions(const Spec& spec) {
    const bool box = std::holds_alternative<Box>(spec.action);
    return {.discrete = box ? nullptr : options.data(),
            .box = box ? components.data() : nullptr,
            .log_prob = log_prob.data(),
            .value = value.data()};
  }
  std::vector<std::int64_t> options;
  std::vector<float> components, log_prob, value;
};

at::Tensor tensor_of(std::vector<float>& numbers) { return at::from_blob(numbers.data(), {std::ssize(numbers)}); }

class RecurrentActorLoops : public ::testing::TestWithParam<std::tuple<const char*, CellKind, Trunks, std::int64_t>> {
 protected:
  Spec spec = EnvRegistry::native().spec(std::get<0>(GetParam()));
  RecurrentPolicy policy{spec,
                         {.mlp = {.hidden = {20, 9}, .trunks = std::get<2>(GetParam()), .policy_gain = 1},
                          .cell = std::get<1>(GetParam()),
                          .size = std::get<3>(GetParam())},
                         at::detail::createCPUGenerator(1)};
  std::int64_t elements = spec.observation[0].count();

  void SetUp() override {
    torch::manual_seed(3);
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : policy.parameters()) parameter.add_(torch::randn_like(parameter), 0.1);
  }
};

// Values and states do not depend on what was drawn, so the two see the same.
TEST_P(RecurrentActorLoops, ValuesStatesAndProbabilitiesAreThoseOfTheDefinition) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > detect_instruction_set()) continue;
    RecurrentActor actor(policy, {.instruction_set = set}, kActorRows, 7);
    ModuleActor definition(policy, {}, kActorRows, 7);
    for (int t = 0; t < 6; ++t) {
      const at::Tensor x = torch::randn({kActorRows, elements}), before = definition.state().clone();
      MemoryStep mine, theirs;
      actor.act({x}, {}, mine.decisions(spec));
      definition.act({x}, {}, theirs.decisions(spec));
      EXPECT_TRUE(torch::allclose(tensor_of(mine.value), tensor_of(theirs.value), 1e-4, 1e-5)) << name_of(set);
      EXPECT_TRUE(torch::allclose(actor.state(), definition.state(), 1e-4, 1e-5)) << name_of(set) << t;
      const at::NoGradGuard no_grad;
      const PolicyOutput output = policy.forward_sequences({.observation = {x}, .state = before, .start = {}}).output;
      const bool box = std::holds_alternative<Box>(spec.action);
      const at::Tensor action = box ? tensor_of(mine.components).unsqueeze(1) : torch::tensor(mine.options);
      EXPECT_TRUE(torch::allclose(tensor_of(mine.log_prob), policy.distribution(output)->log_prob(action), 1e-4, 1e-4))
          << name_of(set);
      const std::vector<std::uint8_t> done{0, 1, 0, 0, 0, 1, 0};
      actor.episodes_ended(done);
      definition.episodes_ended(done);
    }
  }
}

TEST_P(RecurrentActorLoops, ARowsBitsDoNotDependOnTheOthers) {
  RecurrentActor all(policy, {.acting = Acting::kMode}, kActorRows, 7), one(policy, {.acting = Acting::kMode}, 1, 7);
  for (int t = 0; t < 3; ++t) {
    const at::Tensor x = torch::randn({kActorRows, elements});
    MemoryStep many, single(1);
    all.act({x}, {}, many.decisions(spec));
    one.act({x[4].unsqueeze(0).contiguous()}, {}, single.decisions(spec));
    EXPECT_EQ(single.value[0], many.value[4]);
    EXPECT_EQ(single.log_prob[0], many.log_prob[4]);
    EXPECT_TRUE(torch::equal(one.state()[0], all.state()[4]));
  }
}

TEST_P(RecurrentActorLoops, EvaluatingLeavesTheStateAlone) {
  RecurrentActor actor(policy, {}, 2, 7), wide(policy, {}, 5, 7);
  const at::Tensor x = torch::randn({5, elements}), states = torch::randn({5, policy.state_size()});
  const at::Tensor before = actor.state().clone();
  std::vector<float> in_pieces(5), at_once(5);
  actor.evaluate({x}, states, in_pieces.data());
  wide.evaluate({x}, states, at_once.data());
  EXPECT_EQ(in_pieces, at_once);
  EXPECT_TRUE(torch::equal(actor.state(), before));
}

TEST_P(RecurrentActorLoops, ASavedActorRemembersWhatItDid) {
  RecurrentActor first(policy, {}, kActorRows, 7), second(policy, {}, kActorRows, 8);
  MemoryStep mine, other;
  const at::Tensor x = torch::randn({kActorRows, elements});
  first.act({x}, {}, mine.decisions(spec));
  second.load(first.save());
  for (int t = 0; t < 5; ++t) {
    first.act({x}, {}, mine.decisions(spec));
    second.act({x}, {}, other.decisions(spec));
    EXPECT_EQ(other.options, mine.options);
    EXPECT_EQ(other.components, mine.components);
    EXPECT_EQ(other.value, mine.value);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentActorLoops,
                         ::testing::Combine(::testing::Values("MaskedCartPole-v1", "MaskedPendulum-v1"),
                                            ::testing::Values(CellKind::kLstm, CellKind::kGru),
                                            ::testing::Values(Trunks::kSeparate, Trunks::kShared),
                                            ::testing::Values(5, 64)));

TEST(RecurrentActorChoice, LoopsActUnlessOperationsAreAskedFor) {
  const Spec spec = EnvRegistry::native().spec("MaskedCartPole-v1");
  RecurrentPolicy policy(spec, {}, at::detail::createCPUGenerator(1));
  const auto act_with = [&policy](ActingWithMemory memory) { return make_actor(policy, {.memory = memory}, 2, 1, 0); };
  EXPECT_NE(dynamic_cast<RecurrentActor*>(act_with(ActingWithMemory::kInLoops).get()), nullptr);
  EXPECT_NE(dynamic_cast<ModuleActor*>(act_with(ActingWithMemory::kByOperations).get()), nullptr);
}

// Builds before the loops acted by operations, and `kernel: off` still does.
TEST(RecurrentActorChoice, AnActorOfTheOtherKindIsRefusedWithTheSettingThatHelps) {
  const Spec spec = EnvRegistry::native().spec("MaskedCartPole-v1");
  RecurrentPolicy policy(spec, {}, at::detail::createCPUGenerator(1));
  RecurrentActor in_loops(policy, {}, 2, 7);
  ModuleActor by_operations(policy, {}, 2, 7);
  const auto refusal = [](Actor& actor, const Actor& saved) -> std::string {
    try {
      actor.load(saved.save());
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(in_loops, by_operations),
              HasSubstr("With `kernel: off` in its config.yaml a policy that remembers acts by operations"));
  EXPECT_THAT(refusal(by_operations, in_loops), HasSubstr("has 48 bytes, and must have "));
}

}  // namespace
}  // namespace tandem::rl
