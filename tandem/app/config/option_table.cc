// A table is filled once, by option_table(), and searched in order: it is asked when a run is configured, not while it
// trains.
#include "tandem/app/config/option_table.h"

#include <algorithm>

#include "tandem/app/config/nearest_name.h"
#include "tandem/app/config/other_names.h"
#include "tandem/base/text.h"

namespace tandem::app {

Option::Option(std::string key, std::string help, std::unique_ptr<OptionBinding> binding)
    : key_(std::move(key)), help_(std::move(help)), default_text_(binding->text()), binding_(std::move(binding)) {}

Option& Option::absent_as(std::string word) {
  binding_->absent_word = std::move(word);
  // The default may be the absent word, which has just changed.
  default_text_ = binding_->text();
  return *this;
}

std::optional<std::string> Option::assign(const Setting& setting) {
  std::optional<std::string> problem = binding_->assign(setting.value);
  if (problem) {
    // Stays so when a stronger layer sets a good value: the fault ends the configuration anyway.
    is_faulty_ = true;
  } else {
    origin_ = setting.origin;
  }
  return problem;
}

void Option::clear() {
  binding_->clear();
  origin_ = {};
}

Option& OptionTable::add(Option option) {
  TANDEM_CHECK(find(option.key()) == nullptr, "the key ", option.key(), " exists already");
  return *options_.emplace_back(std::make_unique<Option>(std::move(option)));
}

Option* OptionTable::find_mutable(std::string_view key) {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const auto& o) { return o->key() == key; });
  return found == options_.end() ? nullptr : found->get();
}

const Option* OptionTable::find(std::string_view key) const {
  return const_cast<OptionTable*>(this)->find_mutable(key);  // NOLINT: the search itself changes nothing
}

const Option& OptionTable::at(std::string_view key) const {
  const Option* option = find(key);
  TANDEM_CHECK(option != nullptr, "there is no option ", key);
  return *option;
}

bool OptionTable::has_effect(const Option& option) const {
  const Option::Needed& needed = option.needed();
  return needed.key.empty() || std::ranges::count(needed.texts, at(needed.key).text()) > 0;
}

std::vector<std::string> OptionTable::rivals_of(const Option& option) const {
  std::vector<std::string> keys = option.rivals();
  for (const auto& other : options_) {
    if (std::ranges::count(other->rivals(), option.key()) > 0 && std::ranges::count(keys, other->key()) == 0)
      keys.push_back(other->key());
  }
  return keys;
}

bool OptionTable::has_section(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(), [&](const auto& option) {
    return option->key().size() > name.size() && option->key().starts_with(name) && option->key()[name.size()] == '.';
  });
}

std::vector<std::string> OptionTable::keys() const {
  std::vector<std::string> keys;
  for (const auto& option : options_) keys.push_back(option->key());
  return keys;
}

std::vector<std::string> OptionTable::sections() const {
  std::vector<std::string> sections;
  for (const auto& option : options_) {
    const std::size_t dot = option->key().find('.');
    if (dot == std::string::npos) continue;
    std::string section = option->key().substr(0, dot);
    if (sections.empty() || sections.back() != section) sections.push_back(std::move(section));
  }
  return sections;
}

// From the most telling answer to the least: a section, another library's key, the nearest key, the list of all.
std::string OptionTable::unknown(const Setting& setting) const {
  if (has_section(setting.key)) {
    const auto first = std::find_if(options_.begin(), options_.end(),
                                    [&](const auto& option) { return option->key().starts_with(setting.key + "."); });
    return describe_fault(setting, "this is a section; name a key in it, such as " + (*first)->key());
  }
  if (const auto instead = instead_of_foreign(setting.key))
    return describe_fault(setting, concat("there is no such key; ", *instead));
  std::vector<std::string> names = keys();
  if (setting.value.kind == RawValue::Kind::kSection) names = sections();
  const std::optional<std::string> nearest = nearest_name(setting.key, names);
  if (nearest) return describe_fault(setting, "there is no such key; the nearest one is " + *nearest);
  return describe_fault(setting, "there is no such key; `tandem train --help` lists all of them");
}

std::vector<std::string> OptionTable::assign(std::vector<Setting> layer) {
  constexpr int kMostUnknown = 20;  // more of them say nothing more: this is another program's file
  std::vector<std::string> faults;
  GivenSettings given;
  int unknown_keys = 0;
  for (Setting& setting : layer) setting.key = current_name(setting.key);
  for (const Setting& setting : layer) {
    Option* option = find_mutable(setting.key);
    if (option == nullptr) {
      if (++unknown_keys <= kMostUnknown) faults.push_back(unknown(setting));
      continue;
    }
    const auto [first, is_new] = given.try_emplace(setting.key, &setting);
    if (!is_new) {
      faults.push_back(describe_fault(setting, "was given already, as " + describe(first->second->value) + " (" +
                                                   first->second->origin.place + "); give it once"));
      continue;
    }
    if (const auto problem = option->assign(setting)) {
      faults.push_back(describe_fault(setting, *problem));
      continue;
    }
    // "none" contradicts nothing and leaves the rival as it is.
    if (option->is_absent()) continue;
    if (const auto problem = contradiction(*option, given)) {
      option->mark_faulty();
      faults.push_back(describe_fault(setting, *problem));
      continue;
    }
    // A weaker layer set the rival.
    for (const std::string& rival : rivals_of(*option)) find_mutable(rival)->clear();
  }
  if (unknown_keys > kMostUnknown) faults.push_back(concat(unknown_keys - kMostUnknown, " more keys do not exist"));
  return faults;
}

// With what else the layer sets.
std::optional<std::string> OptionTable::contradiction(const Option& option, const GivenSettings& given) const {
  for (const std::string& key : rivals_of(option)) {
    const auto rival = given.find(key);
    if (rival == given.end() || at(key).is_absent()) continue;
    return concat("contradicts ", key, " = ", describe(rival->second->value), " (", rival->second->origin.place,
                  "); give one of the two");
  }
  return std::nullopt;
}

std::optional<std::string> OptionTable::resolve(std::string_view key, const std::string& text, const Origin& origin) {
  const Setting setting{std::string(key), RawValue::of_text(text), origin};
  const std::optional<std::string> problem = find_mutable(key)->assign(setting);
  return problem ? std::optional(describe_fault(setting, *problem)) : std::nullopt;
}

void OptionTable::clear(std::string_view key) { find_mutable(key)->clear(); }

std::string OptionTable::fault(std::string_view key, const std::string& problem) const {
  const Option& option = at(key);
  Origin origin = option.origin();
  if (origin.layer == Layer::kDefault) origin.place = "the default";
  return describe_fault({option.key(), RawValue::of_text(option.text()), origin}, problem);
}

}  // namespace tandem::app
