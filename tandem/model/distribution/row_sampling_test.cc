#include "tandem/model/distribution/row_sampling.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/distribution/categorical.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::model {
namespace {

constexpr std::int64_t kRows = 50;

at::Tensor random(const std::vector<std::int64_t>& shape, std::uint64_t seed) {
  return at::randn(shape, seeded(seed), at::kFloat);
}

// The options of a single choice.
const std::vector<std::int64_t> kOfTwo{2}, kOfThree{3}, kOfFour{4}, kOfSeven{7};

void expect_close(const at::Tensor& fast, const at::Tensor& by_class) {
  EXPECT_TRUE(at::allclose(fast, by_class, 2e-6, 2e-6)) << (fast - by_class).abs().max().item<float>();
}

TEST(RowSamplingTest, CategoricalLogProbsEqualTheClass) {
  const at::Tensor logits = random({kRows, 7}, 1) * 3, mask = (random({kRows, 7}, 2) > -0.5).to(at::kByte);
  mask.select(1, 4).fill_(1);
  for (const at::Tensor& m : {at::Tensor(), mask}) {
    const at::Tensor actions = at::empty({kRows}, at::kLong), log_prob = at::empty({kRows});
    const CategoricalRows rows{logits.const_data_ptr<float>(), m.defined() ? m.const_data_ptr<std::uint8_t>() : nullptr,
                               kRows, kOfSeven};
    Philox philox(3);
    sample_categorical(rows, &philox, actions.data_ptr<std::int64_t>(), log_prob.data_ptr<float>());
    expect_close(log_prob, Categorical(logits, m).log_prob(actions));
    sample_categorical(rows, nullptr, actions.data_ptr<std::int64_t>(), log_prob.data_ptr<float>());
    EXPECT_TRUE(actions.equal(Categorical(logits, m).mode()));
    expect_close(log_prob, Categorical(logits, m).log_prob(actions));
  }
}

TEST(RowSamplingTest, CategoricalFrequenciesFollowTheProbabilities) {
  const std::int64_t n = 200000;
  const at::Tensor logits = at::log(torch::tensor({0.1F, 0.2F, 0.3F, 0.4F})).repeat({n, 1});
  const at::Tensor mask = torch::tensor({1, 0, 1, 1}, at::kByte).repeat({n, 1});
  const at::Tensor actions = at::empty({n}, at::kLong), log_prob = at::empty({n});
  Philox philox(4);
  sample_categorical({logits.const_data_ptr<float>(), mask.const_data_ptr<std::uint8_t>(), n, kOfFour}, &philox,
                     actions.data_ptr<std::int64_t>(), log_prob.data_ptr<float>());
  const at::Tensor share = at::bincount(actions, {}, 4).to(at::kDouble) / static_cast<double>(n);
  EXPECT_TRUE(at::allclose(share, torch::tensor({0.125, 0.0, 0.375, 0.5}, at::kDouble), 0, 0.005)) << share;
  EXPECT_EQ(share[1].item<double>(), 0);
}

TEST(RowSamplingTest, MultiCategoricalLogProbsEqualTheClass) {
  const std::vector<std::int64_t> nvec{3, 2, 4};
  const at::Tensor logits = random({kRows, 9}, 5) * 2;
  const at::Tensor mask = torch::tensor({1, 0, 1, 1, 1, 0, 1, 1, 1}, at::kByte).repeat({kRows, 1});
  const at::Tensor actions = at::empty({kRows, 3}, at::kLong), log_prob = at::empty({kRows});
  Philox philox(6);
  sample_categorical({logits.const_data_ptr<float>(), mask.const_data_ptr<std::uint8_t>(), kRows, nvec}, &philox,
                     actions.data_ptr<std::int64_t>(), log_prob.data_ptr<float>());
  expect_close(log_prob, MultiCategorical(logits, nvec, mask).log_prob(actions));
  sample_categorical({logits.const_data_ptr<float>(), mask.const_data_ptr<std::uint8_t>(), kRows, nvec}, nullptr,
                     actions.data_ptr<std::int64_t>(), log_prob.data_ptr<float>());
  EXPECT_TRUE(actions.equal(MultiCategorical(logits, nvec, mask).mode()));
}

TEST(RowSamplingTest, NormalLogProbsEqualTheClassWithOneOrManyRowsOfLogStd) {
  const at::Tensor mean = random({kRows, 3}, 7);
  for (const at::Tensor& log_std : {random({3}, 8) * 0.5, random({kRows, 3}, 9) * 0.5}) {
    const at::Tensor actions = at::empty({kRows, 3}), log_prob = at::empty({kRows});
    const NormalRows rows{mean.const_data_ptr<float>(), log_std.const_data_ptr<float>(), kRows, 3,
                          log_std.dim() == 1 ? 0 : 3};
    Philox philox(10);
    sample_normal(rows, &philox, actions.data_ptr<float>(), log_prob.data_ptr<float>());
    expect_close(log_prob, Normal(mean, log_std).log_prob(actions));
    EXPECT_GT((actions - mean).abs().min().item<float>(), 0);
    sample_normal(rows, nullptr, actions.data_ptr<float>(), log_prob.data_ptr<float>());
    EXPECT_TRUE(actions.equal(mean));
  }
}

TEST(RowSamplingTest, NormalDrawsHaveMeanAndStandardDeviation) {
  const std::int64_t n = 100000;
  const at::Tensor mean = torch::tensor({1.0F, -2.0F}).repeat({n, 1}), log_std = at::log(torch::tensor({0.5F, 2.0F}));
  const at::Tensor actions = at::empty({n, 2}), log_prob = at::empty({n});
  Philox philox(11);
  sample_normal({mean.const_data_ptr<float>(), log_std.const_data_ptr<float>(), n, 2, 0}, &philox,
                actions.data_ptr<float>(), log_prob.data_ptr<float>());
  EXPECT_TRUE(at::allclose(actions.mean(0), torch::tensor({1.0F, -2.0F}), 0, 0.03));
  EXPECT_TRUE(at::allclose(actions.std(0), torch::tensor({0.5F, 2.0F}), 0.02, 0));
}

TEST(RowSamplingTest, SquashedLogProbsEqualTheClassAlsoAtSaturation) {
  const at::Tensor mean = random({kRows, 2}, 12) * 2, log_std = random({kRows, 2}, 13) * 0.3;
  mean[0].fill_(40);
  mean[1].fill_(-40);
  const at::Tensor actions = at::empty({kRows, 2}), log_prob = at::empty({kRows});
  const NormalRows rows{mean.const_data_ptr<float>(), log_std.const_data_ptr<float>(), kRows, 2, 2};
  Philox philox(14);
  sample_squashed_normal(rows, &philox, actions.data_ptr<float>(), log_prob.data_ptr<float>());
  EXPECT_LT(actions.abs().max().item<float>(), 1);
  // Near saturation one rounding of the inverse moves u, so the bound is relative to a large number there.
  EXPECT_TRUE(at::allclose(log_prob, SquashedNormal(mean, log_std).log_prob(actions), 1e-4, 1e-4));
  sample_squashed_normal(rows, nullptr, actions.data_ptr<float>(), log_prob.data_ptr<float>());
  EXPECT_TRUE(at::allclose(actions, SquashedNormal(mean, log_std).mode(), 1e-6, 1e-6));
}

TEST(RowSamplingTest, StateDependentNoiseEqualsTheClass) {
  const at::Tensor mean = random({kRows, 2}, 15), latent = random({kRows, 5}, 16), log_std = random({5, 2}, 17) * 0.5;
  const at::Tensor variance = (log_std * 2).exp(), matrices = at::empty({kRows, 5, 2});
  Philox philox(18);
  for (std::int64_t row = 0; row < kRows; ++row) {
    draw_noise_matrix(log_std.const_data_ptr<float>(), 10, philox, matrices[row].data_ptr<float>());
  }
  const at::Tensor actions = at::empty({kRows, 2}), log_prob = at::empty({kRows});
  NoiseRows rows{mean.const_data_ptr<float>(),
                 latent.const_data_ptr<float>(),
                 variance.const_data_ptr<float>(),
                 matrices.const_data_ptr<float>(),
                 kRows,
                 2,
                 5};
  sample_with_noise(rows, actions.data_ptr<float>(), log_prob.data_ptr<float>());
  const StateDependentNoise d(mean, latent, log_std);
  expect_close(actions, mean + at::bmm(latent.unsqueeze(1), matrices).squeeze(1));
  expect_close(log_prob, d.log_prob(actions));
  EXPECT_TRUE(at::allclose((matrices / log_std.exp()).std(), torch::tensor(1.0F), 0.15));
  rows.matrices = nullptr;
  sample_with_noise(rows, actions.data_ptr<float>(), log_prob.data_ptr<float>());
  EXPECT_TRUE(actions.equal(mean));
}

TEST(RowSamplingTest, ARowsActionDoesNotDependOnHowManyFollow) {
  const at::Tensor logits = random({kRows, 4}, 19);
  std::vector<std::int64_t> all(kRows), few(5);
  std::vector<float> log_prob(kRows);
  Philox one(20), two(20);
  sample_categorical({logits.const_data_ptr<float>(), nullptr, kRows, kOfFour}, &one, all.data(), log_prob.data());
  sample_categorical({logits.const_data_ptr<float>(), nullptr, 5, kOfFour}, &two, few.data(), log_prob.data());
  all.resize(5);
  EXPECT_EQ(all, few);
}

TEST(RowSamplingTest, DivergedPoliciesAndEmptyMasksAreErrors) {
  std::int64_t action = 0;
  float out = 0, log_prob = 0;
  Philox philox(21);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const std::vector<float> logits{bad, bad};
    EXPECT_THROW(sample_categorical({logits.data(), nullptr, 1, kOfTwo}, &philox, &action, &log_prob), RunError) << bad;
    const float zero = 0;
    EXPECT_THROW(sample_normal({&bad, &zero, 1, 1, 0}, &philox, &out, &log_prob), RunError) << bad;
    EXPECT_THROW(sample_squashed_normal({&zero, &bad, 1, 1, 0}, &philox, &out, &log_prob), RunError) << bad;
  }
  const std::vector<float> one_nan{0.5F, NAN, 1.0F};
  EXPECT_THROW(sample_categorical({one_nan.data(), nullptr, 1, kOfThree}, &philox, &action, &log_prob), RunError);
  const std::vector<float> logits{0.0F, 1.0F};
  const std::vector<std::uint8_t> none{0, 0};
  EXPECT_THROW(sample_categorical({logits.data(), none.data(), 1, kOfTwo}, &philox, &action, &log_prob), EnvError);
}

}  // namespace
}  // namespace tandem::model
