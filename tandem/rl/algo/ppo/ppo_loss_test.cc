// The loss against numbers worked out by hand.
#include "tandem/rl/algo/ppo/ppo_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

// Two actions of equal probability in both rows, and values 1 and 3.
struct Even : ActorCritic {
  explicit Even(const Spec& spec) : ActorCritic(spec) {}
  PolicyOutput forward(const Observation&) override {
    return {.action_parameters = {torch::zeros({2, 2}).requires_grad_()},
            .value = torch::tensor({1.0F, 3.0F}).requires_grad_()};
  }
};

Spec two_actions() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {Leaf{.name = "obs", .type = ElementType::kFloat32, .shape = {1}, .low = {}, .high = {}}};
  spec.action = Discrete{2};
  return spec;
}

// Probabilities have risen by half in the first row (which did well) and fallen by half in the second (which did
// badly).
learner::ShardBatch rows() {
  learner::ShardBatch batch;
  batch.rows = batch.valid_rows = 2;
  batch.columns = {
      {"action", torch::tensor({0, 1}, torch::kLong)}, {"log_prob", torch::tensor({std::log(1.0F / 3), 0.0F})},
      {"value", torch::tensor({0.0F, 3.0F})},          {"advantage", torch::tensor({2.0F, -1.0F})},
      {"value_target", torch::tensor({2.0F, 0.0F})},   {"observation", torch::zeros({2, 1})}};
  return batch;
}

struct Numbers {
  double loss = 0;
  PpoSums sums;
};
Numbers computed(const PpoOptions& options, const PpoMinibatch& minibatch) {
  Even policy(two_actions());
  Numbers numbers;
  const learner::ShardLoss shard = ppo_loss(policy, rows(), options, minibatch, numbers.sums);
  EXPECT_EQ(shard.weight, 2);
  numbers.loss = shard.loss.item<double>();
  return numbers;
}

TEST(PpoLossTest, TheSurrogateTakesTheWorseOfBothRatios) {
  PpoOptions options;
  options.value_coef = options.entropy_coef = 0;
  const Numbers numbers = computed(options, {.clip_range = 0.2});
  EXPECT_NEAR(numbers.loss, -(2 * 1.2 - 0.8) / 2, 1e-6);
  EXPECT_NEAR(numbers.sums.policy_loss / 2, numbers.loss, 1e-6);
  EXPECT_EQ(numbers.sums.clip_fraction, 2);
  EXPECT_NEAR(numbers.sums.approx_kl, (0.5 - std::log(1.5)) + (-0.5 - std::log(0.5)), 1e-6);
}

TEST(PpoLossTest, AdvantagesAreShiftedAndScaledBeforehand) {
  PpoOptions options;
  options.value_coef = options.entropy_coef = 0;
  // (2 - 1) * 3 = 3 and (-1 - 1) * 3 = -6.
  const Numbers numbers = computed(options, {.clip_range = 0.2, .advantage_mean = 1, .advantage_scale = 3});
  EXPECT_NEAR(numbers.loss, -(3 * 1.2 - 6 * 0.8) / 2, 1e-6);
}

TEST(PpoLossTest, ValuesCountTheLargerErrorWithinTheClipRange) {
  PpoOptions options;
  options.entropy_coef = 0;
  options.value_coef = 1;
  const double policy = computed(options, {}).sums.policy_loss / 2;
  EXPECT_NEAR(computed(options, {}).loss - policy, (1.0 + 9.0) / 2, 1e-5);
  options.clip_range_value = 0.5;  // the first value may move from 0 to 0.5 only
  EXPECT_NEAR(computed(options, {}).loss - policy, (1.5 * 1.5 + 9.0) / 2, 1e-5);
}

TEST(PpoLossTest, EntropyIsABonus) {
  PpoOptions options;
  options.value_coef = 0;
  options.entropy_coef = 0;
  const double without = computed(options, {}).loss;
  options.entropy_coef = 0.5;
  const Numbers with = computed(options, {});
  EXPECT_NEAR(with.loss, without - 0.5 * std::log(2.0), 1e-6);
  EXPECT_NEAR(with.sums.entropy, 2 * std::log(2.0), 1e-6);
}

// The same operations on the same numbers, which are told in another way.
TEST(PpoLossTest, NumbersOnTheDeviceGiveTheBitsOfNumbersOnTheHost) {
  const Spec spec = two_actions();
  PpoOptions options;
  options.entropy_coef = 0.013;
  options.kl_coef = 0.21;
  const PpoMinibatch minibatch{.clip_range = 0.17, .advantage_mean = 0.37, .advantage_scale = 1.9};
  learner::ShardBatch batch = rows();
  batch.columns.back().second = torch::tensor({0.3F, -1.2F}).reshape({2, 1});
  MlpPolicy policy(spec, {.hidden = {8}}, at::detail::createCPUGenerator(3));
  const auto gradients = [&policy] {
    std::vector<torch::Tensor> all;
    for (torch::Tensor& parameter : policy.parameters()) {
      all.push_back(parameter.grad().clone());
      parameter.mutable_grad().reset();
    }
    return all;
  };
  PpoSums wanted;
  const learner::ShardLoss host = ppo_loss(policy, batch, options, minibatch, wanted);
  host.loss.backward();
  const std::vector<torch::Tensor> wanted_gradients = gradients();

  const PpoConstants constants = ppo_constants(options, minibatch);
  const learner::DeviceLoss made =
      ppo_loss_on_device(policy, batch, options, torch::tensor(c10::ArrayRef<double>(constants), torch::kDouble));
  made.loss.backward();
  EXPECT_TRUE(made.loss.equal(host.loss)) << made.loss << " and " << host.loss;
  const torch::Tensor means = made.numbers.to(torch::kDouble);
  const PpoSums sums = ppo_sums_of(2, {means.const_data_ptr<double>(), 5});
  EXPECT_EQ(sums.rows, wanted.rows);
  for (const auto& [name, loss] : kLosses) EXPECT_EQ(sums.*loss, wanted.*loss) << name;
  const std::vector<torch::Tensor> gradients_now = gradients();
  for (std::size_t i = 0; i < gradients_now.size(); ++i)
    EXPECT_TRUE(gradients_now[i].equal(wanted_gradients[i])) << "parameter " << i;
}

}  // namespace
}  // namespace tandem::rl
