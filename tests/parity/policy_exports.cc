// policy_exports FOLDER: writes policies of every family as .pt and .safetensors, each with a .json of observations and
// of what the policy itself makes of them; policy_export_parity.py loads the files with Python's torch and compares.
#include <ATen/ATen.h>
#include <torch/utils.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/policy_export.h"

namespace {

using namespace tandem::rl;
using tandem::concat;

std::string to_json(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  std::string text = R"({"shape": [)";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text += concat(i > 0 ? "," : "", tensor.size(i));
  text += concat("], \"dtype\": \"", tensor.scalar_type(), "\", \"values\": [");
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    char number[40];
    std::snprintf(number, sizeof number, "%s%.17g", i > 0 ? "," : "", values.data_ptr<double>()[i]);
    text += number;
  }
  return text + "]}";
}

std::string to_json(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) text += (text.empty() ? "[" : ", ") + to_json(tensor);
  return text + "]";
}

// Statistics of random observations around 2, and the normalised form of `rows`.
Normalizers normalizers_for(const Spec& spec, Observation& rows) {
  const NormalizerOptions options{.observations = true, .clip_observation = 2};
  Normalizers normalizers(spec, options);
  NormalizerMoments moments(spec, options);
  const at::Tensor many = at::randn({100, spec.observation[0].count()}) * 3 + 2;
  for (std::int64_t row = 0; row < 100; ++row) moments.observation[0].add(many[row].const_data_ptr<float>());
  normalizers.merge(moments);
  normalizers.finish_merge();
  const at::Tensor seen = at::empty_like(rows[0]);
  normalizers.normalize(0, rows[0].const_data_ptr<float>(), seen.data_ptr<float>(), rows[0].size(0));
  rows[0] = seen;
  return normalizers;
}

enum class Normalized { kNo, kYes };

void write(const std::filesystem::path& folder, const std::string& name, const Spec& spec,
           const MlpPolicyOptions& options, const Observation& rows, Normalized normalized) {
  MlpPolicy policy(spec, options, at::make_generator<at::CPUGeneratorImpl>(5));
  Observation seen = rows;
  std::unique_ptr<Normalizers> normalizers;
  if (normalized == Normalized::kYes) normalizers = std::make_unique<Normalizers>(normalizers_for(spec, seen));
  const PolicyOutput output = policy.forward(seen);
  at::Tensor action = policy.distribution(output)->mode().clone();
  if (const auto* box = std::get_if<Box>(&spec.action)) {
    to_bounds(*box, action.const_data_ptr<float>(), action.size(0), action.data_ptr<float>());
  }
  export_script(policy, normalizers.get(), folder / (name + ".pt"));
  export_weights(policy, normalizers.get(), folder / (name + ".safetensors"));
  std::vector<at::Tensor> weights;
  std::string names;
  for (const auto& item : policy.named_parameters()) {
    weights.push_back(item.value());
    names += concat(names.empty() ? "\"" : ", \"", item.key(), "\"");
  }
  tandem::write_file(
      folder / (name + ".json"),
      concat("{\"observation\": ", to_json(rows), ", \"parameters\": ", to_json(output.action_parameters),
             ", \"value\": ", to_json(output.value), ", \"action\": ", to_json(action), ", \"names\": [", names,
             "], \"weights\": ", to_json(weights), "}\n"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: policy_exports FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  torch::manual_seed(3);
  const auto spec = [](ActionSpace action) {
    return Spec{.id = "Test-v0", .observation = {{.shape = {4}}}, .action = std::move(action)};
  };
  const Box box{{-2, -1}, {1, 3}};
  const Observation rows{at::randn({16, 4})};
  write(folder, "categorical", spec(Discrete{3}), {.policy_gain = 2}, rows, Normalized::kNo);
  write(folder, "multi", spec(MultiDiscrete{{3, 2}}), {.activation = Activation::kSilu, .policy_gain = 2}, rows,
        Normalized::kNo);
  write(folder, "normal", spec(box), {.trunks = Trunks::kShared, .policy_gain = 2}, rows, Normalized::kYes);
  write(folder, "squashed", spec(box), {.family = ActionFamily::kSquashedNormal, .policy_gain = 2}, rows,
        Normalized::kYes);
  write(folder, "noise", spec(box),
        {.activation = Activation::kGelu, .family = ActionFamily::kStateDependentNoise, .policy_gain = 2}, rows,
        Normalized::kNo);
  Spec mixed = spec(Discrete{3});
  mixed.observation = {{.name = "speed", .shape = {2}},
                       {.name = "pixels", .type = ElementType::kUInt8, .shape = {2, 2}},
                       {.name = "card", .type = ElementType::kInt64, .low = {1}, .high = {4}}};
  const Observation mixed_rows{at::randn({16, 2}), at::randint(256, {16, 2, 2}, at::kByte),
                               at::randint(1, 5, {16}, at::kLong)};
  write(folder, "mixed", mixed, {.activation = Activation::kElu, .policy_gain = 2}, mixed_rows, Normalized::kNo);
  return 0;
}
