#include "tandem/rl/policy/weights_export.h"

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"
#include "tandem/model/files/safetensors.h"

namespace tandem::rl {

void export_weights(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path) {
  const Spec& spec = policy.spec();
  model::NamedTensors tensors;
  for (const auto& item : policy.named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : policy.named_buffers()) tensors.emplace_back(item.key(), item.value().detach());
  model::SafetensorsMetadata metadata{{"env", spec.id}, {"action_family", name_of(policy.family())}};
  if (normalizers != nullptr && normalizers->options().observations) {
    for (std::size_t l = 0; l < spec.observation.size(); ++l) {
      const auto [mean, deviation] = normalizers->mean_and_std(l);
      tensors.emplace_back(concat("observation_mean.", l), mean.reshape(spec.observation[l].shape));
      tensors.emplace_back(concat("observation_std.", l), deviation.reshape(spec.observation[l].shape));
    }
    metadata["observation_clip"] = concat(normalizers->options().clip_observation);
  }
  AtomicFile file(path);
  model::write_safetensors(tensors, metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace tandem::rl
