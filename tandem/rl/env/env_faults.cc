#include "tandem/rl/env/env_faults.h"

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// The parameter type that step() needs for the spec's actions and does not have; null when it has it.
const char* missing_parameter(const ActionSpace& space, const StructForms& forms) {
  if (std::holds_alternative<Discrete>(space)) return forms.one_choice ? nullptr : "std::int64_t";
  if (std::holds_alternative<MultiDiscrete>(space)) return forms.choices ? nullptr : "std::span<const std::int64_t>";
  return forms.numbers ? nullptr : "std::span<const float>";
}

void check_one_choice(const Spec& spec, std::uint64_t options, std::span<const std::int64_t> actions) {
  // Negative actions are too large as unsigned numbers. There is no early exit, so that the loop becomes vector
  // instructions; the bad row is looked for only when there is one.
  bool outside = false;
  for (const std::int64_t action : actions) outside |= static_cast<std::uint64_t>(action) >= options;
  if (!outside) [[likely]]
    return;
  for (std::size_t row = 0; row < actions.size(); ++row) {
    if (static_cast<std::uint64_t>(actions[row]) < options) continue;
    throw EnvError(concat(spec.id, ": environment ", row, " was given action ", actions[row], "; its actions are 0 .. ",
                          options - 1));
  }
}

// MultiDiscrete: row after row, one entry a choice.
void check_choices(const Spec& spec, const std::vector<std::int64_t>& options, std::span<const std::int64_t> actions) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const std::size_t choice = i % options.size();
    if (actions[i] >= 0 && actions[i] < options[choice]) continue;
    throw EnvError(concat(spec.id, ": environment ", i / options.size(), " was given action ", actions[i],
                          " for choice ", choice, "; its options are 0 .. ", options[choice] - 1));
  }
}

// Box: bounds are not compared, since the caller clips; a value that is not finite cannot be clipped.
void check_box(const Spec& spec, std::size_t elements, std::span<const float> actions) {
  const std::optional<std::size_t> at = first_not_finite(actions);
  if (!at) [[likely]]
    return;
  throw EnvError(concat(spec.id, ": environment ", *at / elements, " was given ", actions[*at], " as element ",
                        *at % elements,
                        " of its action; likely the policy has diverged: look at its last losses and gradient norms"));
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
  if (call == EnvCall::kStep) return concat(who, " in step ", elapsed_steps + 1, " of its episode: ");
  return concat(who, call == EnvCall::kReset    ? " in reset(): "
                     : call == EnvCall::kRender ? " in render(): "
                     : call == EnvCall::kSave   ? " in save(): "
                     : call == EnvCall::kReward ? " in compute_reward(): "
                                                : " in load(): ");
}

void check_actions(const Spec& spec, std::size_t rows, const EnvActions& actions) {
  const bool is_box = std::holds_alternative<Box>(spec.action);
  TANDEM_CHECK((is_box ? actions.box != nullptr : actions.discrete != nullptr), spec.id, ": no array of actions for ",
               describe(spec.action));
  if (const auto* discrete = std::get_if<Discrete>(&spec.action)) {
    check_one_choice(spec, static_cast<std::uint64_t>(discrete->n), {actions.discrete, rows});
  } else if (const auto* multi = std::get_if<MultiDiscrete>(&spec.action)) {
    check_choices(spec, multi->n, {actions.discrete, rows * multi->n.size()});
  } else {
    const auto elements = static_cast<std::size_t>(action_elements(spec.action));
    check_box(spec, elements, {actions.box, rows * elements});
  }
}

void check_mask(const ActionSpace& space, std::span<const std::uint8_t> allowed) {
  // A Discrete space is one choice with all entries of the mask.
  const auto* multi = std::get_if<MultiDiscrete>(&space);
  const std::int64_t one = mask_elements(space);
  const std::span<const std::int64_t> choices = multi != nullptr ? std::span(multi->n) : std::span(&one, 1);
  std::size_t begin = 0;
  for (std::size_t choice = 0; choice < choices.size(); ++choice) {
    const auto options = allowed.subspan(begin, static_cast<std::size_t>(choices[choice]));
    begin += options.size();
    int left = 0;
    for (const std::uint8_t option : options) {
      if (option > 1) throw EnvError(concat("its action mask holds ", int{option}, "; entries are 0 or 1"));
      left += option;
    }
    if (left == 0) throw EnvError(concat("its action mask leaves no option for choice ", choice));
  }
}

std::optional<std::size_t> first_wrong_element(const Leaf& leaf, const std::byte* memory, std::size_t rows) {
  const std::size_t elements = static_cast<std::size_t>(leaf.count()) * rows;
  if (leaf.type == ElementType::kFloat32)
    return first_not_finite(std::span(reinterpret_cast<const float*>(memory), elements));
  if (leaf.type == ElementType::kFloat64)
    return first_not_finite(std::span(reinterpret_cast<const double*>(memory), elements));
  if (leaf.type == ElementType::kUInt8 || leaf.low.empty()) return std::nullopt;
  const auto* numbers = reinterpret_cast<const std::int64_t*>(memory);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto number = static_cast<double>(numbers[i]);
    const std::size_t element = i % leaf.low.size();
    if (number < leaf.low[element] || number > leaf.high[element]) return i;
  }
  return std::nullopt;
}

std::string describe_element(const Leaf& leaf, const std::byte* memory, std::size_t at) {
  const std::size_t element = at % static_cast<std::size_t>(leaf.count());
  const std::string what = concat("element ", element, " of its observation leaf '", leaf.name, "' is ");
  if (leaf.type == ElementType::kFloat32) return concat(what, reinterpret_cast<const float*>(memory)[at]);
  if (leaf.type == ElementType::kFloat64) return concat(what, reinterpret_cast<const double*>(memory)[at]);
  return concat(what, reinterpret_cast<const std::int64_t*>(memory)[at], "; the spec says ", leaf.low[element], " .. ",
                leaf.high[element]);
}

}  // namespace tandem::rl
