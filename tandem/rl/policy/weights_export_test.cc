#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/policy_export.h"

namespace tandem::rl {
namespace {

TEST(WeightsExportTest, TheFileHasEveryParameterAndTheNormaliser) {
  const Spec spec{.id = "Test-v0", .observation = {{.shape = {3}}}, .action = Box{{-1, -1}, {1, 1}}};
  const NormalizerOptions options{.observations = true, .clip_observation = 7.5};
  Normalizers normalizers(spec, options);
  NormalizerMoments moments(spec, options);
  const at::Tensor x = at::randn({50, 3}) * 4 + 1;
  for (std::int64_t row = 0; row < 50; ++row) moments.observation[0].add(x[row].const_data_ptr<float>());
  normalizers.merge(moments);
  normalizers.finish_merge();
  MlpPolicy policy(spec, {.hidden = {8}}, model::seeded(1));

  const TemporaryFolder folder;
  export_weights(policy, &normalizers, folder / "policy.safetensors");
  const std::string content = read_file(folder / "policy.safetensors");
  const model::TensorFile file = model::read_safetensors(std::as_bytes(std::span(content)));
  EXPECT_EQ(file.tensors.size(), policy.named_parameters().size() + 2);
  for (const auto& item : policy.named_parameters()) EXPECT_TRUE(file.at(item.key()).equal(item.value())) << item.key();
  EXPECT_TRUE(at::allclose(file.at("observation_mean.0"), x.mean(0), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(file.at("observation_std.0"), x.std(0, /*unbiased=*/false), 1e-4, 1e-5));
  EXPECT_EQ(file.metadata.at("env"), "Test-v0");
  EXPECT_EQ(file.metadata.at("action_family"), "normal");
  EXPECT_EQ(file.metadata.at("observation_clip"), "7.5");

  export_weights(policy, nullptr, folder / "plain.safetensors");
  const std::string plain = read_file(folder / "plain.safetensors");
  EXPECT_EQ(model::read_safetensors(std::as_bytes(std::span(plain))).tensors.size(), policy.named_parameters().size());
  EXPECT_THROW(export_weights(policy, nullptr, folder / "missing" / "policy.safetensors"), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
