#include "tandem/rl/policy/policy_export.h"

#include <torch/script.h>

#include <cctype>
#include <sstream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/model/state_hash.h"

namespace tandem::rl {
namespace {

// TorchScript names are identifiers; those of a Sequential's children are numbers.
std::string identifier(const std::string& name) {
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "_" + name : name;
}

// The tree of parameters and buffers of `module`, without its code.
void mirror(const torch::nn::Module& module, torch::jit::Module& script) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    script.register_parameter(identifier(item.key()), item.value().detach().cpu().clone(), /*is_buffer=*/false);
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    script.register_buffer(identifier(item.key()), item.value().detach().cpu().clone());
  }
  for (const auto& item : module.named_children()) {
    torch::jit::Module child("tandem_module", script._ivalue()->compilation_unit(), /*shouldMangle=*/true);
    mirror(*item.value(), child);
    script.register_module(identifier(item.key()), child);
  }
}

// Floats come as float32 on the module's device; then the frozen statistics of the run apply. A leaf of float64 is
// narrowed behind its statistics instead, which are of float64.
std::string normalize_source(const Spec& spec, const Normalizers* normalizers, torch::jit::Module& script) {
  std::string text = "def prepare(self, observation: List[Tensor]) -> List[Tensor]:\n    leaves: List[Tensor] = []\n";
  const bool normalized = normalizers != nullptr && normalizers->options().observations;
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    std::string leaf = concat("observation[", l, "]");
    if (spec.observation[l].type == ElementType::kFloat32)
      leaf +=
          normalized && normalizers->is_wide(l) ? concat(".to(self.observation_mean_", l, ")") : ".to(self.float_like)";
    if (normalized) {
      auto [mean, deviation] = normalizers->mean_and_std(l);
      const double clip = normalizers->options().clip_observation;
      script.register_buffer(concat("observation_mean_", l), mean.reshape(spec.observation[l].shape));
      script.register_buffer(concat("observation_std_", l), deviation.reshape(spec.observation[l].shape));
      leaf = concat("torch.clamp((", leaf, " - self.observation_mean_", l, ") / self.observation_std_", l, ", ", -clip,
                    ", ", clip, ")");
      if (normalizers->is_wide(l)) leaf += ".to(self.float_like)";
    }
    text += concat("    leaves.append(", leaf, ")\n");
  }
  return text + "    return leaves\n";
}

// The method act(): the mode of each family, and its way to the bounds, in TorchScript. The parameters of a policy
// begin with logits or a mean, so the head is parameter 0.
std::string act_source(const ActorCritic& policy, const std::string& type, torch::jit::Module& script) {
  const ActionSpace& space = policy.spec().action;
  if (const auto* box = std::get_if<Box>(&space)) {
    const at::Tensor low = at::tensor(box->low, at::kDouble), high = at::tensor(box->high, at::kDouble);
    const at::Tensor has_range = low.isfinite().logical_and(high.isfinite());
    script.register_buffer("action_low", low.to(at::kFloat));
    script.register_buffer("action_high", high.to(at::kFloat));
    script.register_buffer("action_middle", at::where(has_range, 0.5 * (low + high), 0.0).to(at::kFloat));
    script.register_buffer("action_unit", at::where(has_range, 0.5 * (high - low), 1.0).to(at::kFloat));
    const char* const mode = policy.family() == ActionFamily::kSquashedNormal ? "torch.tanh(head)" : "head";
    const std::string action = concat("self.action_middle + ", mode, " * self.action_unit");
    return concat("def act(self, observation: ", type, ") -> Tensor:\n    head = self.forward(observation)[0][0]\n",
                  "    return torch.minimum(torch.maximum(", action, ", self.action_low), self.action_high)\n");
  }
  std::string text =
      concat("def act(self, observation: ", type, ", mask: Optional[Tensor] = None) -> Tensor:\n",
             "    head = self.forward(observation)[0][0]\n",
             "    if mask is not None:\n        head = torch.masked_fill(head, mask == 0, -float('inf'))\n");
  const auto* choices = std::get_if<MultiDiscrete>(&space);
  if (choices == nullptr) return text + "    return torch.argmax(head, -1)\n";
  return text + concat("    chosen: List[Tensor] = []\n    for part in torch.split(head, [", joined(choices->n),
                       "], -1):\n",
                       "        chosen.append(torch.argmax(part, -1))\n    return torch.stack(chosen, -1)\n");
}

}  // namespace

// The module gets four methods:
//   policy()   what the policy's own script() returned;
//   prepare()  floats to float32, and the run's normalisation;
//   forward()  both, for a tensor or a list of tensors;
//   act()      the deterministic action that the environment takes.
torch::jit::Module make_script(const ActorCritic& policy, const Normalizers* normalizers) {
  PolicyScript own = policy.script();
  at::NoGradGuard no_grad;
  torch::jit::Module script("tandem_policy");
  mirror(policy, script);
  for (const auto& [name, value] : own.constants) script.register_buffer(name, value);
  script.register_buffer("float_like", at::zeros({1}));
  const bool one_leaf = policy.spec().observation.size() == 1;
  const std::string type = one_leaf ? "Tensor" : "List[Tensor]";
  try {
    script.define(own.source);
    script.define(normalize_source(policy.spec(), normalizers, script));
    script.define(concat("def forward(self, observation: ", type, ") -> Tuple[List[Tensor], Tensor]:\n",
                         "    return self.policy(self.prepare(", one_leaf ? "[observation]" : "observation", "))\n"));
    script.define(act_source(policy, type, script));
  } catch (const c10::Error& error) {
    throw ConfigError(
        concat("TorchScript does not compile what the policy's script() returned: ", error.what_without_backtrace()));
  } catch (const torch::jit::ErrorReport& error) {
    throw ConfigError(concat("TorchScript does not compile what the policy's script() returned: ", error.what()));
  }
  script.eval();
  return script;
}

// The script is written to memory first, so that the file is whole or not there.
void export_script(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path) {
  std::ostringstream bytes;
  make_script(policy, normalizers).save(bytes);
  write_file(path, bytes.str());
}

// The weights, and beside them the statistics of each leaf where the run normalised observations.
void export_weights(const ActorCritic& policy, const Normalizers* normalizers, const std::filesystem::path& path) {
  const Spec& spec = policy.spec();
  model::NamedTensors tensors = model::tensors_of(policy);
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
