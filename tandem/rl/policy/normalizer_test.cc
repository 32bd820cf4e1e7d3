#include "tandem/rl/policy/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

Spec two_floats(ElementType type = ElementType::kFloat32) {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {Leaf{.name = "obs", .type = type, .shape = {2}, .low = {}, .high = {}}};
  spec.action = Discrete{2};
  return spec;
}

torch::Tensor samples(int rows) {
  torch::manual_seed(5);
  return torch::randn({rows, 2}) * torch::tensor({3.0, 0.1}) + torch::tensor({100.0, -1.0});
}

void add_rows(RunningMoments& moments, const torch::Tensor& rows) {
  for (std::int64_t i = 0; i < rows.size(0); ++i) moments.add(rows.const_data_ptr<float>() + 2 * i);
}

TEST(RunningMomentsTest, MergedPartsHaveTheMomentsOfTheWhole) {
  const torch::Tensor rows = samples(101);
  RunningMoments merged(2), part(2);
  for (const torch::Tensor& chunk : rows.split(23)) {
    part.clear();
    add_rows(part, chunk.contiguous());
    merged.merge(part);
  }
  EXPECT_EQ(merged.count(), 101);
  const torch::Tensor exact = rows.to(torch::kDouble);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(merged.mean()[static_cast<std::size_t>(i)], exact.select(1, i).mean().item<double>(), 1e-10);
    EXPECT_NEAR(merged.variance(static_cast<std::size_t>(i)), exact.select(1, i).var(false).item<double>(), 1e-10);
  }
}

TEST(NormalizersTest, StatisticsCountOnlyAfterTheMergeIsFinished) {
  const NormalizerOptions options{.observations = true};
  Normalizers normalizers(two_floats(), options);
  NormalizerMoments seen(two_floats(), options);
  const torch::Tensor rows = samples(500);
  add_rows(seen.observation[0], rows);
  torch::Tensor out = torch::zeros_like(rows);
  normalizers.merge(seen);
  normalizers.normalize(0, rows.const_data_ptr<float>(), out.data_ptr<float>(), 500);
  EXPECT_EQ(out[0][0].item<float>(), 10.0F) << "clipped, since nothing is known yet";
  normalizers.finish_merge();
  normalizers.normalize(0, rows.const_data_ptr<float>(), out.data_ptr<float>(), 500);
  EXPECT_TRUE(torch::allclose(out.mean(0), torch::zeros(2), 0, 1e-3));
  EXPECT_TRUE(torch::allclose(out.std(0), torch::ones(2), 0, 1e-2));
}

// A clock: its numbers are all equal as float32.
TEST(NormalizersTest, OfFloat64TheMeanIsSubtractedBeforeTheNarrowing) {
  const NormalizerOptions options{.observations = true};
  const Spec spec = two_floats(ElementType::kFloat64);
  Normalizers normalizers(spec, options), other(spec, options);
  NormalizerMoments seen(spec, options);
  const torch::Tensor rows =
      torch::tensor({1.7e9, 0.0}, torch::kDouble) + torch::arange(100.0, torch::kDouble).unsqueeze(1) / 100;
  for (int i = 0; i < 100; ++i) seen.observation[0].add(rows.const_data_ptr<double>() + 2 * i);
  normalizers.merge(seen);
  normalizers.finish_merge();
  torch::Tensor out = torch::zeros({100, 2});
  normalizers.normalize(0, rows.const_data_ptr<double>(), out.data_ptr<float>(), 100);
  const torch::Tensor expected = (rows - rows.mean(0)) / rows.var(0, false).sqrt();
  EXPECT_TRUE(torch::allclose(out.to(torch::kDouble), expected, 0, 1e-5));
  const auto [mean, deviation] = normalizers.mean_and_std(0);
  EXPECT_EQ(mean.scalar_type(), torch::kDouble);
  EXPECT_TRUE(torch::allclose((rows - mean) / deviation, expected, 0, 1e-5));
  other.load(normalizers.state());
  torch::Tensor again = torch::zeros_like(out);
  other.normalize(0, rows.const_data_ptr<double>(), again.data_ptr<float>(), 100);
  EXPECT_TRUE(torch::equal(out, again));
  const double far[] = {1e300, -1e300};
  normalizers.normalize(0, far, out.data_ptr<float>(), 1);
  EXPECT_EQ(out[0][0].item<float>(), 10.0F);
  EXPECT_EQ(out[0][1].item<float>(), -10.0F);
}

TEST(NormalizersTest, RewardsAreScaledByTheSpreadOfReturnsAndKeepTheirSign) {
  const NormalizerOptions options{.rewards = true};
  Normalizers normalizers(two_floats(), options);
  EXPECT_EQ(normalizers.scale_reward(-2.0), -2.0F);
  NormalizerMoments seen(two_floats(), options);
  for (const double value : {-4.0, 4.0}) seen.discounted_return.add(&value);
  normalizers.merge(seen);
  normalizers.finish_merge();
  EXPECT_NEAR(normalizers.scale_reward(-2.0), -0.5, 1e-6);
  EXPECT_EQ(normalizers.scale_reward(1e6), 10.0F);
}

TEST(NormalizersTest, StateComesBackExactly) {
  const NormalizerOptions options{.observations = true, .rewards = true};
  Normalizers normalizers(two_floats(), options), other(two_floats(), options);
  NormalizerMoments seen(two_floats(), options);
  add_rows(seen.observation[0], samples(50));
  const double value = 3;
  seen.discounted_return.add(&value);
  normalizers.merge(seen);
  normalizers.finish_merge();
  other.load(normalizers.state());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::equal(other.state()[i].second, normalizers.state()[i].second));
  EXPECT_THROW(other.load({}), CheckpointError);
}

TEST(NormalizersTest, LeavesThatAreNoFloatsAreRefusedByName) {
  try {
    const Normalizers refused(two_floats(ElementType::kUInt8), {.observations = true});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'obs' is not of floats"));
  }
}

}  // namespace
}  // namespace tandem::rl
