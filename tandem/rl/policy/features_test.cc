#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {
namespace {

Spec mixed_spec() {
  Spec spec{.id = "Mixed-v0", .action = Discrete{2}};
  spec.observation = {{.name = "speed", .shape = {2}},
                      {.name = "pixels", .type = ElementType::kUInt8, .shape = {1, 2}},
                      {.name = "cards", .type = ElementType::kInt64, .shape = {2}, .low = {1, 0}, .high = {3, 1}},
                      {.name = "flag", .type = ElementType::kUInt8, .shape = {}, .low = {0}, .high = {1}}};
  return spec;
}

Observation mixed_rows() {
  return {torch::tensor({{0.5F, -1.0F}, {2.0F, 3.0F}}), torch::tensor({{{0, 255}}, {{51, 102}}}, at::kByte),
          torch::tensor({{1, 1}, {3, 0}}, at::kLong), torch::tensor({1, 0}, at::kByte)};
}

at::Tensor mixed_features() {
  return torch::tensor({{0.5F, -1.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F, 1.0F, 1.0F},
                        {2.0F, 3.0F, 0.2F, 0.4F, 0.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F}});
}

TEST(FlatFeaturesTest, LeavesOfAllTypesBecomeOneRow) {
  const FlatFeatures features(mixed_spec());
  EXPECT_EQ(features.size(), 10);
  EXPECT_FALSE(features.is_identity());
  EXPECT_TRUE(at::allclose(features.encode(mixed_rows()), mixed_features())) << features.encode(mixed_rows());
}

TEST(FlatFeaturesTest, ALeafOfFloat64IsSeenAsFloat32) {
  Spec spec{.id = "Clock-v0", .observation = {{.type = ElementType::kFloat64, .shape = {2}}}, .action = Discrete{2}};
  const FlatFeatures features(spec);
  EXPECT_TRUE(features.is_identity());
  EXPECT_TRUE(at::equal(features.encode({torch::ones({3, 2})}), torch::ones({3, 2})));
  EXPECT_THROW((void)features.encode({torch::ones({3, 2}, at::kDouble)}), ConfigError);
}

TEST(FlatFeaturesTest, RawRowsGiveTheSameBits) {
  const FlatFeatures features(mixed_spec());
  const Observation rows = mixed_rows();
  std::vector<const std::byte*> leaves;
  for (const at::Tensor& leaf : rows) leaves.push_back(static_cast<const std::byte*>(leaf.const_data_ptr()));
  const at::Tensor out = at::full({2, 10}, 77.0F);
  features.encode_rows(leaves, 2, out.data_ptr<float>());
  EXPECT_TRUE(out.equal(features.encode(rows)));
}

TEST(FlatFeaturesTest, AnIntegerOutsideOfItsBoundsIsAnError) {
  const FlatFeatures features(mixed_spec());
  for (const std::int64_t bad : {0, 4}) {
    Observation rows = mixed_rows();
    rows[2][0][0] = bad;
    EXPECT_THROW((void)features.encode(rows), EnvError);
    std::vector<const std::byte*> leaves;
    for (const at::Tensor& leaf : rows) leaves.push_back(static_cast<const std::byte*>(leaf.const_data_ptr()));
    const at::Tensor out = at::zeros({2, 10});
    EXPECT_THROW(features.encode_rows(leaves, 2, out.data_ptr<float>()), EnvError);
  }
}

TEST(FlatFeaturesTest, OneFloatLeafIsPassedOnWithoutACopy) {
  const FlatFeatures features(Spec{.id = "Plain", .observation = {{.shape = {4}}}, .action = Discrete{2}});
  const at::Tensor rows = at::randn({3, 4});
  EXPECT_TRUE(features.is_identity());
  EXPECT_EQ(features.encode({rows}).const_data_ptr(), rows.const_data_ptr());
}

TEST(FlatFeaturesTest, IntegersWithoutBoundsOrWithTooManyOptionsAreRefused) {
  Spec spec = mixed_spec();
  spec.observation[2].low.clear();
  spec.observation[2].high.clear();
  EXPECT_THROW(FlatFeatures{spec}, ConfigError);
  spec.observation[2].low = {0, 0};
  spec.observation[2].high = {40000, 40000};
  EXPECT_THROW(FlatFeatures{spec}, ConfigError);
}

TEST(ObservationTest, WrongShapesTypesAndRowsNameTheLeaf) {
  const Spec spec = mixed_spec();
  EXPECT_NO_THROW(check_observation(spec, mixed_rows()));
  const auto broken = [&](std::size_t leaf, const at::Tensor& by) {
    Observation rows = mixed_rows();
    rows[leaf] = by;
    try {
      check_observation(spec, rows);
    } catch (const ConfigError& error) {
      return std::string(error.what()).find(spec.observation[leaf].name) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(broken(0, at::zeros({2, 3})));
  EXPECT_TRUE(broken(1, at::zeros({2, 1, 2})));
  EXPECT_TRUE(broken(2, at::zeros({3, 2}, at::kLong)));
  EXPECT_TRUE(broken(3, at::Tensor()));
  EXPECT_THROW(check_observation(spec, {at::zeros({2, 2})}), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
