#include "tandem/rl/env/adapter_faults.h"

#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// The parameter type that step() needs for the spec's actions and does not have; null when it has it.
const char* missing_parameter(const ActionSpace& space, const StructForms& forms) {
  if (std::holds_alternative<Discrete>(space)) return forms.one_choice ? nullptr : "std::int64_t";
  if (std::holds_alternative<MultiDiscrete>(space)) return forms.choices ? nullptr : "std::span<const std::int64_t>";
  return forms.numbers ? nullptr : "std::span<const float>";
}

}  // namespace

std::vector<std::string> struct_faults(const Spec& spec, const StructForms& forms) {
  const std::string subject = concat("environment '", spec.id, "': ");
  std::vector<std::string> faults;
  if (const char* parameter = missing_parameter(spec.action, forms)) {
    faults.push_back(concat(subject, "its actions are ", describe(spec.action), ", so step() must take ", parameter));
  }
  if (spec.has_action_mask && !forms.mask) {
    faults.push_back(subject + "has_action_mask is set, so it needs action_mask(std::span<std::uint8_t>) const");
  } else if (!spec.has_action_mask && forms.mask) {
    faults.push_back(subject + "it has action_mask(), so its spec must set has_action_mask");
  }
  return faults;
}

std::string describe_call(const Spec& spec, EnvCall call, std::size_t env, std::size_t count, int elapsed_steps) {
  const std::string who = concat(spec.id, ": environment ", env, " of ", count);
  switch (call) {
    case EnvCall::kReset:
      return who + " in reset(): ";
    case EnvCall::kStep:
      return concat(who, " in step ", elapsed_steps + 1, " of its episode: ");
    case EnvCall::kSave:
      return who + " in save(): ";
    case EnvCall::kLoad:
      break;
  }
  return who + " in load(): ";
}

}  // namespace tandem::rl
