// A run saves its state, rank 0 puts the source's tensors in the place of those of the same names, and the run loads
// it: so all ranks, replicas and target networks have them, whatever the algorithm.
#include "tandem/app/train/warm_start.h"

#include <algorithm>

#include "tandem/app/config/policy_keys.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::app {
namespace {

constexpr std::string_view kParameters = "parameters.", kBuffers = "buffers.", kAverages = "averages.";
// Before the name of one of several policies (rl::PolicyNames).
constexpr std::string_view kPolicyPart = "policy-", kNormalizersPart = "normalizers-";

// The name behind such a prefix; of other parts "", the name of one agent's policy.
std::string policy_of(const std::string& part) {
  for (const std::string_view prefix : {kPolicyPart, kNormalizersPart}) {
    if (part.starts_with(prefix)) return part.substr(prefix.size());
  }
  return "";
}

const at::Tensor* find(const model::NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &model::NamedTensors::value_type::first);
  return found == tensors.end() ? nullptr : &found->second;
}

// What a policy of the source has for a tensor of the run's; null for one that only learning needs.
const at::Tensor* counterpart(const model::NamedTensors& source, const std::string& name) {
  if (name.starts_with(kParameters) || name.starts_with(kBuffers)) return find(source, name);
  if (name.starts_with(kAverages)) return find(source, std::string(kParameters) + name.substr(kAverages.size()));
  return nullptr;
}

// A target network's part has the names of the state, or those of its parameters alone.
const at::Tensor* counterpart_of_target(const model::NamedTensors& source, const std::string& name) {
  const at::Tensor* its = counterpart(source, name);
  return its != nullptr ? its : find(source, std::string(kParameters) + name);
}

bool same_form(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

std::string form_of(const at::Tensor& tensor) {
  return concat(c10::toString(tensor.scalar_type()), "[", joined(tensor.sizes()), "]");
}

WarmSource read_checkpoint(const std::filesystem::path& path) {
  const model::Checkpoint checkpoint = find_checkpoint(path);
  const TrainOptions options = options_of(checkpoint);
  WarmSource source{.place = checkpoint.folder().string(), .policies = {}};
  for (const model::CheckpointPart& part : checkpoint.parts()) {
    const std::string name = policy_of(part.name);
    if (part.name == rl::PolicyNames(name).part) {
      source.policies[name] = checkpoint.read_part(part.name).tensors;
    } else if (part.name == rl::PolicyNames(name).normalizers) {
      source.normalizers[name] = checkpoint.read_part(part.name).tensors;
    }
  }
  source.saw_normalized = options.normalize.options().observations;
  return source;
}

// The names in a file are those of the module.
WarmSource read_weights(const std::filesystem::path& path) {
  WarmSource source{.place = path.string(), .policies = {}};
  model::NamedTensors& policy = source.policies[""];
  const std::string file = read_file(path);
  for (const auto& [name, tensor] : model::read_safetensors(std::as_bytes(std::span(file))).tensors) {
    if (name.starts_with("observation_mean.")) source.saw_normalized = true;
    for (const std::string_view prefix : {kParameters, kBuffers})
      policy.emplace_back(std::string(prefix) + name, tensor);
  }
  return source;
}

void compare(const std::string& policy, const model::NamedTensors& source, const model::NamedTensors& mine,
             std::vector<std::string>& faults) {
  const std::string whose = policy.empty() ? "" : concat("policy '", policy, "': ");
  for (const auto& [name, tensor] : mine) {
    const at::Tensor* its = counterpart(source, name);
    if (its == nullptr)
      faults.push_back(concat(whose, "it has no '", name, "', which this run's policy has (", form_of(tensor), ")"));
    else if (!same_form(*its, tensor))
      faults.push_back(concat(whose, "its '", name, "' is ", form_of(*its), ", and this run's is ", form_of(tensor)));
  }
}

// Tensors of `part` that the source has in the same form, by the name that `counterpart_of` finds, are replaced;
// returns their number.
template <typename CounterpartOf>
std::size_t take(const model::NamedTensors& source, const CounterpartOf& counterpart_of, model::NamedTensors& part) {
  std::size_t taken = 0;
  for (auto& [name, tensor] : part) {
    const at::Tensor* its = counterpart_of(source, name);
    if (its == nullptr || !same_form(*its, tensor)) continue;
    tensor = *its;
    ++taken;
  }
  return taken;
}

// Moments of other sizes, or of what this run does not scale, stay where they are. `whose`: for the notes.
void take_normalizers(const model::NamedTensors& source, const std::string& whose, bool wanted,
                      model::NamedTensors& part, std::vector<std::string>& notes) {
  for (auto& [name, tensor] : part) {
    const at::Tensor* its = find(source, name);
    const bool fits = its != nullptr && same_form(*its, tensor);
    if (fits && wanted) tensor = *its;
    notes.push_back(concat(whose, "the normaliser '", name, "' ",
                           fits && wanted ? "is taken"
                           : fits         ? "is not taken, as init_normalizers says"
                                          : "begins anew: the source has none that fits"));
  }
  for (const auto& [name, tensor] : source) {
    if (find(part, name) == nullptr)
      notes.push_back(concat(whose, "its normaliser '", name, "' is not used by this run"));
  }
}

}  // namespace

WarmSource read_warm_source(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return read_weights(path);
  if (path.extension() == ".pt") {
    throw ConfigError(concat(path.string(), " is a script for inference; name the run, one of its checkpoints, or the ",
                             ".safetensors file beside it"));
  }
  return read_checkpoint(path);
}

void check_warm_start(const TrainOptions& options, const rl::EnvRegistry& environments) {
  if (!options.init_from) return;
  const WarmSource source = read_warm_source(*options.init_from);
  std::vector<std::string> faults;
  for (const rl::MappedPolicy& policy : policies_of(options, environments)) {
    const auto its = source.policies.find(policy.name);
    if (its == source.policies.end()) {
      faults.push_back(concat(source.place, " has no policy '", policy.name, "'; there are ",
                              joined(source.policies, [](const auto& one) { return concat("'", one.first, "'"); })));
      continue;
    }
    const PolicySettings settings = settings_of_policy(options, policy.name);
    const auto module = policy_factory(options, settings)(policy.spec, at::detail::createCPUGenerator(0));
    compare(policy.name, its->second, model::named_state_of(*module), faults);
  }
  const bool sees_normalized = options.normalize.options().observations;
  if (source.saw_normalized && !sees_normalized) {
    faults.emplace_back(
        "its policy saw normalised observations, and this run does not normalise them: add "
        "normalize.observations: true");
  } else if (source.saw_normalized && source.normalizers.empty() && options.init_normalizers) {
    faults.push_back(
        concat(source.place, " holds the scale of observations without the counts to go on from; name ",
               "the run or one of its checkpoints instead, or let the scale begin anew: ", "init_normalizers: false"));
  } else if (!source.saw_normalized && sees_normalized) {
    faults.emplace_back(
        "its policy saw observations as they are, and this run normalises them: add "
        "normalize.observations: false");
  }
  for (std::string& fault : faults) fault = concat("init_from = ", options.init_from->string(), ": ", fault);
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

std::vector<std::string> warm_start(rl::TrainingRun& run, const TrainOptions& options, const WarmSource* source) {
  learner::StateParts parts = run.save();
  std::vector<std::string> notes;
  if (source != nullptr) {
    for (const auto& [policy, tensors] : source->policies) {
      const rl::PolicyNames names(policy);
      std::size_t taken = 0;
      for (auto& [name, part] : parts) {
        if (name == names.part) taken = take(tensors, counterpart, part);
        if (name != names.target) continue;
        const std::size_t its = take(tensors, counterpart_of_target, part);
        TANDEM_CHECK(its == part.size(), its, " of ", part.size(), " tensors of '", name, "' are in ", source->place);
      }
      notes.push_back(concat(policy.empty() ? "the policy" : concat("policy '", policy, "'"),
                             taken == 0 ? " is not used by this run" : concat(": ", taken, " tensors are taken")));
    }
    for (auto& [name, part] : parts) {
      const std::string policy = policy_of(name);
      if (name != rl::PolicyNames(policy).normalizers) continue;
      const auto its = source->normalizers.find(policy);
      take_normalizers(its == source->normalizers.end() ? model::NamedTensors() : its->second,
                       policy.empty() ? "" : concat("policy '", policy, "': "), options.init_normalizers, part, notes);
    }
    notes.emplace_back("optimizer, counters, episodes and random numbers begin anew");
  }
  (void)run.load([&parts](const std::string& name) { return learner::part_of(parts, name); });
  return notes;
}

}  // namespace tandem::app
