#include "tandem/rl/policy/encoder.h"

#include <ATen/ATen.h>

#include <string>

#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

bool takes(Torso kind, const Leaf& leaf) { return kind != Torso::kNone && is_image(leaf); }

// `spec` without the leaves that go through a torso.
Spec without_images(Spec spec, Torso kind) {
  std::erase_if(spec.observation, [kind](const Leaf& leaf) { return takes(kind, leaf); });
  return spec;
}

}  // namespace

// Torsos are registered under the number of their leaf, in the order of the spec, which is also the order of their
// draws.
Encoder::Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator)
    : spec_(spec), kind_(chosen_torso(options, spec)), flat_(without_images(spec, kind_)), size_(flat_.size()) {
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    if (!takes(kind_, spec.observation[l])) {
      flat_leaves_.push_back(l);
      continue;
    }
    auto torso = register_module(concat(l), make_torso(kind_, options, spec.observation[l], generator));
    size_ += torso->features();
    torsos_.push_back({l, std::move(torso)});
  }
}

// Torsos in the order of their leaves, then the features of all other leaves: the order of size().
at::Tensor Encoder::encode(const Observation& observation) {
  if (torsos_.empty()) return flat_.encode(observation);
  check_observation(spec_, observation);
  std::vector<at::Tensor> parts;
  for (const OfLeaf& each : torsos_) parts.push_back(each.torso->forward(observation[each.leaf]));
  if (!flat_leaves_.empty()) {
    Observation rest;
    for (const std::size_t leaf : flat_leaves_) rest.push_back(observation[leaf]);
    parts.push_back(flat_.encode(rest));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

// The script gives each image's result a variable of its own, then has the flat leaves encoded from a shorter list of
// observations, and joins all in the order of encode().
FlatFeatures::Script Encoder::script(const std::string& name) const {
  if (torsos_.empty()) return flat_.script();
  std::string statements, encoded;
  for (const OfLeaf& each : torsos_) {
    const std::string result = concat("image_", each.leaf);
    statements +=
        each.torso->script(concat("self.", name, "._", each.leaf), concat("observation[", each.leaf, "]"), result);
    encoded += concat(encoded.empty() ? "" : ", ", result);
  }
  if (flat_leaves_.empty())
    return {.statements = concat(statements, "    features = torch.cat([", encoded, "], 1)\n"), .constants = {}};
  std::string rest;
  for (const std::size_t leaf : flat_leaves_) rest += concat(rest.empty() ? "" : ", ", "observation[", leaf, "]");
  FlatFeatures::Script flat = flat_.script();
  flat.statements = concat(statements, "    observation = [", rest, "]\n", flat.statements,
                           "    features = torch.cat([", encoded, ", features], 1)\n");
  return flat;
}

}  // namespace tandem::rl
