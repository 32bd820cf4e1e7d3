#include "tandem/rl/policy/export/exported_policy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/base/version.h"

namespace tandem::rl {
namespace {

// The files use the first eight for themselves, and no member of a struct may be called as the others, words of C++.
constexpr std::string_view kTaken =
    " action action_mask mask state next_state logits mean alignas alignof and and_eq asm auto bitand bitor bool break "
    "case catch char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast "
    "continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator "
    "or or_eq private protected public register reinterpret_cast requires return short signed sizeof static "
    "static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union "
    "unsigned using virtual void volatile wchar_t while xor xor_eq ";

constexpr std::string_view kNumbered = "observation_";

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// An own name, or none.
std::string identifier_of(const std::string& name) {
  std::string own = name;
  std::ranges::replace_if(
      own, [](char c) { return !is_letter(c); }, '_');
  const bool begins_well = !own.empty() && std::isalpha(static_cast<unsigned char>(own.front())) != 0;
  const bool is_free = kTaken.find(concat(" ", own, " ")) == std::string_view::npos && !own.starts_with(kNumbered);
  return begins_well && is_free ? own : "";
}

// The type is the environment's, which a policy sees as float32 where it is float64.
std::string leaves_json(const ExportedPolicy& exported) {
  const Spec& spec = exported.policy.spec();
  const std::vector<std::string> names = leaf_names(spec);
  JsonWriter json;
  json.begin_array();
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    constexpr std::array<const char*, 4> kTypes{"float32", "uint8", "int64", "float64"};
    json.begin_object().key("name").value(leaf.name).key("input").value(names[l]);
    json.key("type").value(exported.is_wide(l) ? kTypes[3] : kTypes.at(static_cast<std::size_t>(leaf.type)));
    json.key("shape").begin_array();
    for (const std::int64_t side : leaf.shape) json.value(side);
    json.end_array().end_object();
  }
  return json.end_array().text();
}

}  // namespace

// Where two leaves have one name, both get a number.
std::vector<std::string> leaf_names(const Spec& spec) {
  std::vector<std::string> names;
  for (const Leaf& leaf : spec.observation) names.push_back(identifier_of(leaf.name));
  const std::vector<std::string> own = names;
  for (std::size_t l = 0; l < names.size(); ++l) {
    if (own[l].empty() || std::ranges::count(own, own[l]) > 1) names[l] = concat(kNumbered, l);
  }
  return names;
}

std::vector<std::pair<std::string, std::string>> describe_policy(const ExportedPolicy& exported) {
  const Spec& spec = exported.policy.spec();
  std::vector<std::pair<std::string, std::string>> all = exported.facts;
  all.emplace_back("tandem_version", kVersion);
  all.emplace_back("env", spec.id);
  all.emplace_back("observation", leaves_json(exported));
  all.emplace_back("action_space", describe(spec.action));
  all.emplace_back("action_family", name_of(exported.policy.family()));
  all.emplace_back("observations_normalized", exported.is_normalized() ? "yes" : "no");
  for (auto& [name, value] : all) {
    value = printable(value);
    std::ranges::replace_if(
        value, [](unsigned char c) { return c < ' '; }, ' ');
  }
  return all;
}

}  // namespace tandem::rl
