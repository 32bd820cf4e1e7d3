// Laws that hold for every family, each checked on a batch of distributions with parameters of moderate size.
#include "tandem/model/distribution/distribution.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <memory>

#include "tandem/base/error.h"
#include "tandem/model/distribution/categorical.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::model {
namespace {

using Parameters = std::vector<at::Tensor>;

struct Family {
  const char* name;
  std::function<Parameters(std::int64_t rows, std::uint64_t seed, at::ScalarType)> draw_parameters;
  std::function<std::unique_ptr<Distribution>(const Parameters&)> make;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

Parameters random_tensors(std::uint64_t seed, at::ScalarType dtype,
                          const std::vector<std::vector<std::int64_t>>& shapes) {
  const at::Generator generator = seeded(seed);
  Parameters tensors;
  for (const auto& shape : shapes) tensors.push_back((0.7 * at::randn(shape, generator, at::kDouble)).to(dtype));
  return tensors;
}

std::vector<Family> families() {
  return {
      {"Categorical",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 5}});
       },
       [](const Parameters& p) { return std::make_unique<Categorical>(p[0]); }},
      {"MaskedCategorical",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 5}});
       },
       [](const Parameters& p) {
         return std::make_unique<Categorical>(p[0], torch::tensor({1, 0, 1, 1, 0}, at::kByte));
       }},
      {"MultiCategorical",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 9}});
       },
       [](const Parameters& p) {
         return std::make_unique<MultiCategorical>(p[0], std::vector<std::int64_t>{3, 2, 4});
       }},
      {"Normal",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 3}, {3}});
       },
       [](const Parameters& p) { return std::make_unique<Normal>(p[0], p[1]); }},
      {"SquashedNormal",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 2}, {rows, 2}});
       },
       [](const Parameters& p) { return std::make_unique<SquashedNormal>(p[0], p[1]); }},
      {"StateDependentNoise",
       [](auto rows, auto seed, auto dtype) {
         return random_tensors(seed, dtype, {{rows, 2}, {rows, 4}, {4, 2}});
       },
       [](const Parameters& p) { return std::make_unique<StateDependentNoise>(p[0], p[1], p[2]); }},
  };
}

class DistributionLaw : public ::testing::TestWithParam<Family> {
 protected:
  std::unique_ptr<Distribution> draw(std::int64_t rows, std::uint64_t seed, at::ScalarType dtype = at::kDouble) const {
    return GetParam().make(GetParam().draw_parameters(rows, seed, dtype));
  }
  // The same distribution in every one of `rows` rows, for averages over samples.
  std::unique_ptr<Distribution> repeat(std::int64_t rows, std::uint64_t seed) const {
    Parameters one = GetParam().draw_parameters(1, seed, at::kDouble);
    for (at::Tensor& tensor : one) {
      if (tensor.dim() == 2 && tensor.size(0) == 1) tensor = tensor.expand({rows, tensor.size(1)}).contiguous();
    }
    return GetParam().make(one);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, DistributionLaw, ::testing::ValuesIn(families()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

// A sum over rows and quantities with weights that differ, so that no error cancels.
at::Tensor weighted_outputs(const Distribution& d, const at::Tensor& actions, const Distribution& other) {
  at::Tensor all = d.log_prob(actions) + 0.3 * d.kl(other);
  if (d.has_entropy()) all = all + 0.7 * d.entropy();
  return (all * at::arange(1, all.numel() + 1, all.options().requires_grad(false))).sum();
}

TEST_P(DistributionLaw, GradientsEqualFiniteDifferences) {
  Parameters parameters = GetParam().draw_parameters(3, 1, at::kDouble);
  const auto other = draw(3, 2);
  const at::Tensor actions = GetParam().make(parameters)->sample(seeded(3));
  for (at::Tensor& tensor : parameters) tensor.requires_grad_();
  weighted_outputs(*GetParam().make(parameters), actions, *other).backward();

  at::NoGradGuard no_grad;
  for (at::Tensor& tensor : parameters) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      double* element = tensor.data_ptr<double>() + i;
      const double kept = *element, h = 1e-6;
      *element = kept + h;
      const double above = weighted_outputs(*GetParam().make(parameters), actions, *other).item<double>();
      *element = kept - h;
      const double below = weighted_outputs(*GetParam().make(parameters), actions, *other).item<double>();
      *element = kept;
      EXPECT_NEAR(tensor.grad().view(-1)[i].item<double>(), (above - below) / (2 * h), 1e-6) << "element " << i;
    }
  }
}

TEST_P(DistributionLaw, EntropyIsTheMeanOfMinusLogProb) {
  const auto d = repeat(200000, 4);
  const at::Tensor surprise = -d->log_prob(d->sample(seeded(5)));
  if (!d->has_entropy()) {
    EXPECT_THROW((void)d->entropy(), ConfigError);
    const at::Tensor estimate = d->entropy_estimate(seeded(6));
    EXPECT_NEAR(estimate.mean().item<double>(), surprise.mean().item<double>(), 0.02);
    return;
  }
  EXPECT_NEAR(surprise.mean().item<double>(), d->entropy()[0].item<double>(), 0.01);
}

TEST_P(DistributionLaw, KlIsTheMeanOfTheLogRatio) {
  const auto p = repeat(200000, 7);
  const auto q = repeat(200000, 8);
  const at::Tensor actions = p->sample(seeded(9));
  const at::Tensor ratio = p->log_prob(actions) - q->log_prob(actions);
  const double bound = 5 * ratio.std().item<double>() / std::sqrt(200000.0);
  EXPECT_NEAR(ratio.mean().item<double>(), p->kl(*q)[0].item<double>(), bound);
  EXPECT_GT(p->kl(*q)[0].item<double>(), bound) << "the two are too alike for this test to tell anything";
}

TEST_P(DistributionLaw, KlToItselfIsZero) {
  const auto d = draw(6, 10);
  EXPECT_LT(d->kl(*d).abs().max().item<double>(), 1e-12);
}

TEST_P(DistributionLaw, KlRefusesEveryOtherFamily) {
  const auto d = draw(2, 11);
  for (const Family& family : families()) {
    const auto other = family.make(family.draw_parameters(2, 12, at::kDouble));
    if (std::string(other->family()) == d->family()) continue;
    EXPECT_THROW((void)d->kl(*other), ConfigError) << family.name;
  }
}

TEST_P(DistributionLaw, EqualGeneratorsGiveEqualActions) {
  const auto d = draw(64, 13);
  EXPECT_TRUE(d->sample(seeded(14)).equal(d->sample(seeded(14))));
  EXPECT_FALSE(d->sample(seeded(14)).equal(d->sample(seeded(15))));
}

TEST_P(DistributionLaw, TheModeIsAtLeastAsLikelyAsNeighbours) {
  const auto d = draw(50, 16);
  if (std::string(d->family()) == "SquashedNormal") {  // its mode() is the median instead
    const auto many = repeat(100000, 16);
    const at::Tensor below = (many->sample(seeded(17)) < many->mode()).to(at::kDouble).mean(0);
    EXPECT_TRUE(at::allclose(below, at::full_like(below, 0.5), 0, 0.01)) << below;
    return;
  }
  const at::Tensor best = d->log_prob(d->mode());
  EXPECT_GE((best - d->log_prob(d->sample(seeded(17)))).min().item<double>(), 0);
}

TEST_P(DistributionLaw, Float32AgreesWithFloat64) {
  const auto wide = draw(40, 18), wide_other = draw(40, 19);
  const auto narrow = draw(40, 18, at::kFloat), narrow_other = draw(40, 19, at::kFloat);
  const at::Tensor actions = narrow->sample(seeded(20));
  EXPECT_EQ(narrow->log_prob(actions).scalar_type(), at::kFloat);
  const at::Tensor same = at::isFloatingType(actions.scalar_type()) ? actions.to(at::kDouble) : actions;
  EXPECT_TRUE(at::allclose(narrow->log_prob(actions).to(at::kDouble), wide->log_prob(same), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(narrow->kl(*narrow_other).to(at::kDouble), wide->kl(*wide_other), 1e-4, 1e-4));
}

TEST_P(DistributionLaw, SamplesCarryNoGradient) {
  Parameters parameters = GetParam().draw_parameters(3, 21, at::kDouble);
  for (at::Tensor& tensor : parameters) tensor.requires_grad_();
  const auto d = GetParam().make(parameters);
  EXPECT_FALSE(d->sample(seeded(22)).requires_grad());
  EXPECT_FALSE(d->mode().requires_grad());
  EXPECT_TRUE(d->log_prob(d->sample(seeded(22))).requires_grad());
}

TEST_P(DistributionLaw, DifferentiableDrawsCarryTheirOwnLogProb) {
  Parameters parameters = GetParam().draw_parameters(3, 23, at::kDouble);
  parameters[0].requires_grad_();
  const auto d = GetParam().make(parameters);
  if (!at::isFloatingType(d->sample(seeded(24)).scalar_type())) {
    EXPECT_THROW((void)d->draw_with_gradient(seeded(24)), ConfigError);
    return;
  }
  const Draw draw = d->draw_with_gradient(seeded(24));
  EXPECT_TRUE(draw.actions.detach().equal(d->sample(seeded(24))));
  EXPECT_TRUE(at::allclose(draw.log_prob, d->log_prob(draw.actions.detach()), 1e-9, 1e-9));
  draw.actions.sum().backward();
  EXPECT_GT(parameters[0].grad().abs().sum().item<double>(), 0.1);
}

TEST_P(DistributionLaw, ActionsOfAWrongShapeAreRefused) {
  const auto d = draw(4, 25);
  const at::Tensor actions = d->sample(seeded(26));
  EXPECT_THROW((void)d->log_prob(actions.slice(0, 0, 3)), ConfigError);
  EXPECT_THROW((void)d->log_prob(actions.unsqueeze(0)), ConfigError);
}

}  // namespace
}  // namespace tandem::model
