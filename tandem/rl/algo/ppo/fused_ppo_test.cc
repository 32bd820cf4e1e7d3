#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>

#include "tandem/rl/algo/ppo/ppo_loss.h"
#include "tandem/rl/algo/ppo/ppo_rows.h"
#include "tandem/rl/algo/testing/near_sums.h"
#include "tandem/rl/algo/testing/random_policy.h"

namespace tandem::rl {
namespace {

using testing::difference;
using testing::draws_entropy;
using testing::InDoubles;

constexpr std::uint64_t kSeedOfDraws = 11;  // of the entropy's estimates

// A policy of random shape, and rows whose ratios lie inside and outside of the clip range, on both sides.
class Problem {
 public:
  explicit Problem(int seed) : random_(static_cast<unsigned>(seed)) {
    torch::manual_seed(seed);
    policy = testing::random_policy(seed, random_);
    options.entropy_coef = 0.02;
    options.value_coef = 0.7;
    if (seed % 2 == 1) options.clip_range_value = 0.3;
    if (seed % 5 == 2) options.kl_coef = 0.4;
    make_rows(std::array<std::int64_t, 7>{1, 16, 17, 63, 64, 65, 200}[static_cast<std::size_t>(random_() % 7)]);
  }

  // Loss and gradients by the definition, in float64.
  double define(PpoSums& sums, std::vector<torch::Tensor>& gradients) {
    InDoubles definition(*policy);
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = order.numel();
    for (const auto& [name, column] : columns) batch.columns.emplace_back(name, column.index_select(0, order));
    torch::manual_seed(kSeedOfDraws);
    const learner::ShardLoss loss = ppo_loss(definition, batch, options, minibatch, sums);
    gradients = torch::autograd::grad({loss.loss * loss.weight}, policy->parameters());
    return loss.loss.item<double>();
  }

  // In float32: the loss by `loss_of`, ppo_loss() or the one pass, and autograd's gradients.
  template <typename LossOf>
  double differentiate(const LossOf& loss_of, PpoSums& sums, std::vector<torch::Tensor>& gradients) {
    policy->to(torch::kFloat);
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = order.numel();
    for (const auto& [name, column] : columns) {
      const torch::Tensor chosen = column.index_select(0, order);
      batch.columns.emplace_back(name, chosen.scalar_type() == torch::kDouble ? chosen.to(torch::kFloat) : chosen);
    }
    torch::manual_seed(kSeedOfDraws);
    const learner::ShardLoss loss = loss_of(*policy, batch, options, minibatch, sums);
    EXPECT_EQ(loss.weight, static_cast<double>(order.numel()));
    gradients = torch::autograd::grad({loss.loss * loss.weight}, policy->parameters());
    return loss.loss.template item<double>();
  }

  template <typename Real>
  learner::WrittenLoss fuse(InstructionSet set, PpoSums& sums) {
    constexpr auto dtype = c10::CppTypeToScalarType<Real>();
    policy->to(dtype);
    for (torch::Tensor& parameter : policy->parameters()) parameter.mutable_grad() = torch::full_like(parameter, NAN);
    learner::Columns all;
    for (const auto& [name, column] : columns)
      all.emplace_back(name, column.scalar_type() == torch::kDouble ? column.to(dtype) : column);
    const learner::ShardRows rows{
        .columns = all,
        .states = {},
        .order = {order.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(order.numel())},
        .rows = order.numel(),
        .valid_rows = order.numel()};
    FusedPpo<Real> fused(*policy, set);
    const std::int64_t held = learner::column(all, "log_prob").size(0);
    const learner::ShardRows others{
        .columns = all, .states = {}, .order = {}, .first = 5, .rows = held - 5, .valid_rows = held - 5};
    PpoSums first;
    (void)fused.run(others, options, minibatch,
                    first);  // what it leaves in its memory must not count in the next minibatch
    torch::manual_seed(kSeedOfDraws);
    return fused.run(rows, options, minibatch, sums);
  }

  std::shared_ptr<MlpPolicy> policy;
  PpoOptions options;
  PpoMinibatch minibatch{.clip_range = 0.2, .advantage_mean = 0.4, .advantage_scale = 1.7};
  torch::Tensor order;
  learner::Columns columns;

 private:
  void make_rows(std::int64_t count) {
    const torch::NoGradGuard no_grad;
    const std::int64_t all = count + 30;  // of the shard; the minibatch takes some of them, in disorder
    const Observation observation = testing::random_observation(policy->spec(), all);
    InDoubles definition(*policy);
    const PolicyOutput output = definition.forward(observation);
    const torch::Tensor mask = testing::random_mask(policy->spec(), all);
    const auto distribution = definition.distribution(output, mask);
    at::Generator generator = at::detail::createCPUGenerator(7);
    const torch::Tensor action = distribution->sample(generator);
    const auto real = [all] { return torch::randn({all}, torch::kDouble); };
    columns = {{"action", action},
               {"log_prob", distribution->log_prob(action) + 0.3 * real()},
               {"value", output.value + 0.4 * real()},
               {"advantage", real() * 2 + 1},
               {"value_target", real()}};
    if (mask.defined()) columns.emplace_back("action_mask", mask);
    for (const torch::Tensor& leaf : observation) columns.emplace_back("observation", leaf);
    order = torch::randperm(all, torch::kLong).slice(0, 0, count).contiguous();
  }

  std::mt19937 random_;
};

TEST(FusedPpoTest, LossAndGradientsOfRandomShapesAreThoseOfAutograd) {
  double clipped = 0;
  for (int seed = 0; seed < testing::problems(48); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Problem problem(seed);
    PpoSums wanted_sums, sums;
    std::vector<torch::Tensor> wanted;
    const double wanted_loss = problem.define(wanted_sums, wanted);
    const learner::WrittenLoss loss = problem.fuse<double>(InstructionSet::kPortable, sums);
    EXPECT_NEAR(loss.loss, wanted_loss, 1e-10 * std::max(1.0, std::abs(wanted_loss)));
    EXPECT_EQ(loss.weight, wanted_sums.rows);
    testing::expect_near(sums, wanted_sums);
    const std::vector<torch::Tensor> parameters = problem.policy->parameters();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT(difference(parameters[i].grad(), wanted[i]), 1e-10) << "parameter " << i;
    clipped += wanted_sums.clip_fraction;
  }
  EXPECT_GT(clipped, 0) << "the clipped branch is part of the test";
}

TEST(FusedPpoTest, EveryInstructionSetIsWithinTheRoundingOfFloat32) {
  for (int seed = 0; seed < testing::problems(24); ++seed) {
    Problem problem(seed);
    if (draws_entropy(*problem.policy)) problem.options.entropy_coef = 0;
    PpoSums wanted_sums;
    std::vector<torch::Tensor> wanted;
    const double wanted_loss = problem.define(wanted_sums, wanted);
    for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > detect_instruction_set()) continue;
      SCOPED_TRACE(concat(name_of(set), ", seed ", seed));
      PpoSums sums;
      const learner::WrittenLoss loss = problem.fuse<float>(set, sums);
      if (draws_entropy(*problem.policy)) sums.entropy = wanted_sums.entropy;
      EXPECT_NEAR(loss.loss, wanted_loss, 3e-5 * std::max(1.0, std::abs(wanted_loss)));
      testing::expect_near(sums, wanted_sums);
      const std::vector<torch::Tensor> parameters = problem.policy->parameters();
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_LT(difference(parameters[i].grad(), wanted[i]), 1e-4) << "parameter " << i;
    }
  }
}

TEST(PpoLossInOnePassTest, LossSumsAndGradientsAreThoseOfTheDefinition) {
  for (int seed = 0; seed < testing::problems(48); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Problem problem(seed);
    PpoSums wanted_sums, sums;
    std::vector<torch::Tensor> wanted, got;
    const double wanted_loss = problem.differentiate(ppo_loss, wanted_sums, wanted);
    const double loss = problem.differentiate(ppo_loss_in_one_pass, sums, got);
    EXPECT_NEAR(loss, wanted_loss, 1e-5 * std::max(1.0, std::abs(wanted_loss)));
    testing::expect_near(sums, wanted_sums);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_LT(difference(got[i], wanted[i].to(torch::kDouble)), 2e-5) << "parameter " << i;
  }
}

TEST(FusedPpoTest, ItSaysWhyAPolicyCannotHaveIt) {
  Problem problem(0);
  EXPECT_NE(why_not_fused(*problem.policy).find("is Double"), std::string::npos) << why_not_fused(*problem.policy);
  problem.policy->to(torch::kFloat);
  EXPECT_EQ(why_not_fused(*problem.policy), "");
  problem.policy->critic().layers()[0]->weight.set_requires_grad(false);
  EXPECT_EQ(why_not_fused(*problem.policy), "critic.0.weight is frozen");
  EXPECT_EQ(why_not_fused(InDoubles(*problem.policy)), "the policy is no MLP policy");
}

}  // namespace
}  // namespace tandem::rl
