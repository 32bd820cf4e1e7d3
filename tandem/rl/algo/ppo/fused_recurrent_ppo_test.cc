// The losses and gradients of policies that remember, by kernels and by autograd.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>

#include "tandem/rl/algo/ppo/ppo_loss.h"
#include "tandem/rl/algo/testing/near_sums.h"
#include "tandem/rl/algo/testing/random_recurrent_policy.h"

namespace tandem::rl {
namespace {

using testing::difference;
using testing::RecurrentInDoubles;

// A policy of random shape and sequences with burn-in, padding and episodes that end in them. The minibatch takes some
// of the shard's sequences, in disorder.
class SequenceProblem {
 public:
  explicit SequenceProblem(int seed) : random_(static_cast<unsigned>(seed)) {
    policy = testing::random_recurrent_policy(seed, random_);
    const auto one_of = [this](std::initializer_list<int> all) { return all.begin()[random_() % all.size()]; };
    options.sequences = SequenceOptions{.length = one_of({1, 3, 8, 21}), .burn_in = one_of({0, 0, 2, 5})};
    options.entropy_coef = 0.02;
    options.value_coef = 0.7;
    if (seed % 2 == 1) options.clip_range_value = 0.3;
    if (seed % 5 == 2) options.kl_coef = 0.4;
    steps = options.sequences->length + options.sequences->burn_in;
    sequences = one_of({1, 2, 7, 12, 13, 30});
    make_rows();
  }

  double define(PpoSums& sums, std::vector<torch::Tensor>& gradients) {
    RecurrentInDoubles definition(*policy);
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = order.numel();
    for (const auto& [name, column] : columns) batch.columns.emplace_back(name, column.index_select(0, order));
    batch.states = {{"state", state.index_select(0, chosen)}};
    const learner::ShardLoss loss = ppo_loss(definition, batch, options, minibatch, sums);
    gradients = torch::autograd::grad({loss.loss * loss.weight}, policy->parameters());
    return loss.loss.item<double>();
  }

  template <typename Real>
  learner::WrittenLoss fuse(InstructionSet set, PpoSums& sums) {
    constexpr auto dtype = c10::CppTypeToScalarType<Real>();
    policy->to(dtype);
    for (torch::Tensor& parameter : policy->parameters()) parameter.mutable_grad() = torch::full_like(parameter, NAN);
    learner::Columns all;
    for (const auto& [name, column] : columns)
      all.emplace_back(name, column.scalar_type() == torch::kDouble ? column.to(dtype) : column);
    const learner::Columns states{{"state", state.to(dtype)}};
    const std::int64_t held = steps * (sequences + 3);
    const learner::ShardRows rows{
        .columns = all,
        .states = states,
        .order = {order.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(order.numel())},
        .rows = order.numel(),
        .valid_rows = order.numel()};
    const learner::ShardRows others{.columns = all, .states = states, .order = {}, .rows = held, .valid_rows = held};
    FusedPpo<Real> fused(*policy, set);
    PpoSums first;
    (void)fused.run(others, options, minibatch, first);  // what it leaves in its memory must not count
    return fused.run(rows, options, minibatch, sums);
  }

  std::shared_ptr<RecurrentPolicy> policy;
  PpoOptions options;
  PpoMinibatch minibatch{.clip_range = 0.2, .advantage_mean = 0.4, .advantage_scale = 1.7};
  std::int64_t steps = 0, sequences = 0;
  torch::Tensor order, chosen, state;
  learner::Columns columns;

 private:
  void make_rows() {
    const torch::NoGradGuard no_grad;
    const std::int64_t held = sequences + 3, all = held * steps;
    const Observation observation = testing::random_observation(policy->spec(), all);
    state = torch::randn({held, policy->state_size()}, torch::kDouble);
    RecurrentInDoubles definition(*policy);
    const SequenceOutput output = definition.forward_sequences(
        {.observation = observation, .state = torch::randn({all, policy->state_size()}, torch::kDouble), .start = {}});
    const torch::Tensor mask = testing::random_mask(policy->spec(), all);
    const auto distribution = definition.distribution(output.output, mask);
    at::Generator generator = at::detail::createCPUGenerator(7);
    const torch::Tensor action = distribution->sample(generator);
    const auto real = [all] { return torch::randn({all}, torch::kDouble); };
    columns = {{"action", action},
               {"log_prob", distribution->log_prob(action) + 0.3 * real()},
               {"value", output.output.value + 0.4 * real()},
               {"advantage", real() * 2 + 1},
               {"value_target", real()}};
    if (mask.defined()) columns.emplace_back("action_mask", mask);
    for (const torch::Tensor& leaf : observation) columns.emplace_back("observation", leaf);
    columns.emplace_back(kDoneColumn, torch::rand({all}).lt(0.15).to(torch::kByte));
    // The first sequence learns from its burn-in, the last one ends in padding.
    const torch::Tensor learned = torch::ones({held, steps}, torch::kByte);
    learned.slice(0, 1).slice(1, 0, options.sequences->burn_in).zero_();
    if (steps > options.sequences->burn_in + 1) learned[held - 1].slice(0, steps - 1).zero_();
    columns.emplace_back(kLearnedColumn, learned.flatten());
    chosen = torch::randperm(held, torch::kLong).slice(0, 0, sequences).contiguous();
    order = (chosen.unsqueeze(1) * steps + torch::arange(steps, torch::kLong)).flatten().contiguous();
  }

  std::mt19937 random_;
};

TEST(FusedRecurrentPpoTest, LossAndGradientsOfRandomShapesAreThoseOfAutograd) {
  for (int seed = 0; seed < testing::problems(60); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    SequenceProblem problem(seed);
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
  }
}

TEST(FusedRecurrentPpoTest, EveryInstructionSetIsWithinTheRoundingOfFloat32) {
  for (int seed = 0; seed < testing::problems(24); ++seed) {
    SequenceProblem problem(seed);
    PpoSums wanted_sums;
    std::vector<torch::Tensor> wanted;
    const double wanted_loss = problem.define(wanted_sums, wanted);
    for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > detect_instruction_set()) continue;
      SCOPED_TRACE(concat(name_of(set), ", seed ", seed));
      PpoSums sums;
      const learner::WrittenLoss loss = problem.fuse<float>(set, sums);
      EXPECT_NEAR(loss.loss, wanted_loss, 3e-5 * std::max(1.0, std::abs(wanted_loss)));
      const std::vector<torch::Tensor> parameters = problem.policy->parameters();
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_LT(difference(parameters[i].grad(), wanted[i]), 3e-4) << "parameter " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::rl
