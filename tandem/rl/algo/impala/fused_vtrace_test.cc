#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cmath>
#include <random>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/testing/random_recurrent_policy.h"

namespace tandem::rl {
namespace {

using testing::difference;
using testing::draws_entropy;

struct WithoutMemory {
  using Policy = MlpPolicy;
  using Doubles = testing::InDoubles;
  static std::shared_ptr<Policy> make(int seed, std::mt19937& random) { return testing::random_policy(seed, random); }
  static PolicyOutput act(Doubles& policy, const Observation& observation) { return policy.forward(observation); }
};
struct WithMemory {
  using Policy = RecurrentPolicy;
  using Doubles = testing::RecurrentInDoubles;
  static std::shared_ptr<Policy> make(int seed, std::mt19937& random) {
    return testing::random_recurrent_policy(seed, random);
  }
  static PolicyOutput act(Doubles& policy, const Observation& observation) {
    const torch::Tensor state = torch::zeros({observation[0].size(0), policy.state_size()}, torch::kDouble);
    return policy.forward_sequences({.observation = observation, .state = state, .start = {}}).output;
  }
};

struct Outcome {
  double loss = 0, weight = 0;
  ImpalaNumbers numbers;
  std::vector<torch::Tensor> gradients;
};

constexpr std::uint64_t kSeedOfDraws = 11;  // of the entropy's estimates

// Policies of random shape, and a trajectory whose ratios lie on both sides of the clips, with episodes that end.
template <typename Kind>
class TrajectoryProblem {
 public:
  explicit TrajectoryProblem(int seed) {
    std::mt19937 random(static_cast<unsigned>(seed)), again(static_cast<unsigned>(seed));
    policy = Kind::make(seed, random);
    target = Kind::make(seed, again);
    const torch::NoGradGuard no_grad;
    for (const torch::Tensor& parameter : target->parameters()) parameter.add_(torch::randn_like(parameter), 0.1);
    steps = std::array<std::int64_t, 4>{1, 3, 8, 13}[random() % 4];
    rows = std::array<std::int64_t, 4>{1, 5, 16, 21}[random() % 4];
    if constexpr (std::is_same_v<Kind, WithMemory>) {
      options.sequence_length = std::array{1, 4, 100}[random() % 3];
      options.burn_in = std::min(static_cast<int>(steps) - 1, std::array{0, 2, 5}[random() % 3]);
      states_.emplace_back("state", torch::randn({1, rows, policy->state_size()}, torch::kDouble));
    }
    make_trajectory();
  }

  // By the definitions, in float64.
  Outcome define(const std::optional<AppoOptions>& appo) {
    typename Kind::Doubles now(*policy), before(*target);
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = steps * rows;
    batch.columns = columns_;
    batch.states = states_;
    Outcome outcome;
    std::optional<AppoTarget> with_target;
    if (appo) with_target.emplace(AppoTarget{before, *appo});
    torch::manual_seed(kSeedOfDraws);
    const learner::ShardLoss loss = impala_loss(now, with_target, batch, options, outcome.numbers);
    outcome.gradients = torch::autograd::grad({loss.loss * loss.weight}, policy->parameters());
    outcome.loss = loss.loss.item<double>();
    outcome.weight = loss.weight;
    return outcome;
  }

  template <typename Real>
  Outcome fuse(const std::optional<AppoOptions>& appo, InstructionSet set) {
    constexpr auto dtype = c10::CppTypeToScalarType<Real>();
    for (const auto& each : {policy, target}) each->to(dtype);
    for (torch::Tensor& parameter : policy->parameters()) parameter.mutable_grad() = torch::full_like(parameter, NAN);
    learner::Columns all;
    for (const auto& [name, column] : columns_)
      all.emplace_back(name, column.scalar_type() == torch::kDouble ? column.to(dtype) : column);
    learner::Columns states;
    for (const auto& [name, state] : states_) states.emplace_back(name, name == "state" ? state.to(dtype) : state);
    const learner::ShardRows shard{
        .columns = all, .states = states, .order = {}, .rows = steps * rows, .valid_rows = steps * rows};
    Outcome outcome;
    FusedVtrace<Real> fused(*policy, appo ? target.get() : nullptr, set);
    (void)fused.run(shard, options, appo, outcome.numbers);  // what it leaves in its memory must not count
    torch::manual_seed(kSeedOfDraws);
    const learner::WrittenLoss loss = fused.run(shard, options, appo, outcome.numbers);
    outcome.loss = loss.loss;
    outcome.weight = loss.weight;
    for (const torch::Tensor& parameter : policy->parameters()) outcome.gradients.push_back(parameter.grad());
    return outcome;
  }

  std::shared_ptr<typename Kind::Policy> policy, target;
  ImpalaOptions options{.gamma = 0.9, .rho_clip = 1.1, .c_clip = 0.9, .entropy_coef = 0.02, .value_coef = 0.7};
  std::int64_t steps = 0, rows = 0;

 private:
  void make_trajectory() {
    const Spec& spec = policy->spec();
    const std::int64_t count = steps * rows, all = count + rows;
    const Observation observation = testing::random_observation(spec, all);
    const torch::Tensor mask = testing::random_mask(spec, all);
    typename Kind::Doubles acting(*target);
    const PolicyOutput output = Kind::act(acting, observation);
    const auto distribution = acting.distribution(output, mask);
    at::Generator generator = at::detail::createCPUGenerator(7);
    const torch::Tensor action = distribution->sample(generator);
    const torch::Tensor log_prob = distribution->log_prob(action) + 0.3 * torch::randn({all}, torch::kDouble);
    columns_ = {{"action", action.narrow(0, 0, count).contiguous()},
                {"log_prob", log_prob.narrow(0, 0, count).contiguous()},
                {"reward", torch::randn({count}, torch::kDouble)},
                {"done", torch::rand({count}).lt(0.1).to(torch::kByte)}};
    const auto as_steps = [this](const torch::Tensor& of_rows) {
      std::vector<std::int64_t> shape{1, steps + 1, rows};
      shape.insert(shape.end(), of_rows.sizes().begin() + 1, of_rows.sizes().end());
      return of_rows.view(shape);
    };
    learner::Columns leaves;
    for (const torch::Tensor& leaf : observation) leaves.emplace_back("observation", as_steps(leaf));
    states_.insert(states_.begin(), leaves.begin(), leaves.end());
    if (mask.defined()) states_.emplace_back("action_mask", as_steps(mask));
  }

  learner::Columns columns_, states_;
};

// In the scope of a SCOPED_TRACE that says the case.
void expect_same(const Outcome& got, const Outcome& wanted, double tolerance) {
  EXPECT_EQ(got.weight, wanted.weight);
  EXPECT_NEAR(got.loss, wanted.loss, tolerance * std::max(1.0, std::abs(wanted.loss)));
  // The definition's means pass through float32 in places.
  const auto expect_near = [](const char* name, double mine, double theirs, double loose) {
    EXPECT_NEAR(mine, theirs, loose * std::max(1.0, std::abs(theirs))) << name;
  };
  const ImpalaNumbers &mine = got.numbers, &theirs = wanted.numbers;
  expect_near("policy_loss", mine.policy_loss, theirs.policy_loss, 1e-4);
  expect_near("value_loss", mine.value_loss, theirs.value_loss, 1e-4);
  expect_near("entropy", mine.entropy, theirs.entropy, 1e-4);
  expect_near("approx_kl", mine.approx_kl, theirs.approx_kl, 1e-4);
  expect_near("clip_fraction", mine.clip_fraction, theirs.clip_fraction, 1e-4);
  if (std::isnan(theirs.explained_variance)) {
    EXPECT_TRUE(std::isnan(mine.explained_variance)) << mine.explained_variance;
  } else {
    expect_near("explained_variance", mine.explained_variance, theirs.explained_variance, 1e-3);
  }
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i)
    EXPECT_LT(difference(got.gradients[i], wanted.gradients[i]), tolerance) << "parameter " << i;
}

class FusedVtraceTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::optional<AppoOptions> appo() {
    if (!GetParam()) return std::nullopt;
    return AppoOptions{.clip_range = 0.15};
  }
};

// APPO's divergence is penalised on every other seed, where actions are discrete.
template <typename Kind>
std::optional<AppoOptions> options_for(const TrajectoryProblem<Kind>& problem, int seed,
                                       std::optional<AppoOptions> appo) {
  const bool discrete = !std::holds_alternative<Box>(problem.policy->spec().action);
  if (appo && discrete && seed % 4 < 2) appo->kl_coef = 0.4;
  return appo;
}

template <typename Kind>
void expect_those_of_autograd(const std::optional<AppoOptions>& of_all) {
  double cut = 0, whole = 0;
  for (int seed = 0; seed < testing::problems(48); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    TrajectoryProblem<Kind> problem(seed);
    const std::optional<AppoOptions> appo = options_for(problem, seed, of_all);
    const Outcome wanted = problem.define(appo);
    expect_same(problem.template fuse<double>(appo, InstructionSet::kPortable), wanted, 1e-10);
    cut += wanted.numbers.clip_fraction;
    whole += 1 - wanted.numbers.clip_fraction;
  }
  EXPECT_GT(cut, 1) << "both sides of the clip are part of the test";
  EXPECT_GT(whole, 1);
}

template <typename Kind>
void expect_those_of_every_set(const std::optional<AppoOptions>& of_all, double tolerance) {
  for (int seed = 0; seed < testing::problems(24); ++seed) {
    TrajectoryProblem<Kind> problem(seed);
    if (draws_entropy(*problem.policy)) problem.options.entropy_coef = 0;
    const std::optional<AppoOptions> appo = options_for(problem, seed, of_all);
    const Outcome wanted = problem.define(appo);
    for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > detect_instruction_set()) continue;
      SCOPED_TRACE(concat(name_of(set), ", seed ", seed));
      Outcome got = problem.template fuse<float>(appo, set);
      if (draws_entropy(*problem.policy)) got.numbers.entropy = wanted.numbers.entropy;
      expect_same(got, wanted, tolerance);
    }
  }
}

TEST_P(FusedVtraceTest, LossAndGradientsOfRandomShapesAreThoseOfAutograd) {
  expect_those_of_autograd<WithoutMemory>(appo());
}

TEST_P(FusedVtraceTest, EveryInstructionSetIsWithinTheRoundingOfFloat32) {
  expect_those_of_every_set<WithoutMemory>(appo(), 3e-4);
}

TEST_P(FusedVtraceTest, WithMemoryLossAndGradientsAreThoseOfAutograd) { expect_those_of_autograd<WithMemory>(appo()); }

TEST_P(FusedVtraceTest, WithMemoryEveryInstructionSetIsWithinTheRoundingOfFloat32) {
  expect_those_of_every_set<WithMemory>(appo(), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, FusedVtraceTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Appo" : "Impala"; });

TEST(FusedAppoTest, ADivergenceOfContinuousActionsThatIsPenalisedHasNoKernels) {
  TrajectoryProblem<WithoutMemory> problem(2);
  ASSERT_TRUE(std::holds_alternative<Box>(problem.policy->spec().action));
  EXPECT_THROW((void)problem.fuse<double>(AppoOptions{.kl_coef = 0.1}, InstructionSet::kPortable), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
