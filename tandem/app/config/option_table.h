// app/config/option_table.h: the options of a program: keys, help, limits, and the fields that they fill.
//
//   OptionTable table;
//   table.add("ppo.gamma", options.ppo.gamma, "Discount of a step's reward.").within(0, 1).flag("--gamma");
//   faults = table.assign(settings_of_one_layer);
//
// Layers are assigned from the weakest to the strongest; within one layer a key is given once.
//
// Threads: single-thread. Ownership: the struct with the fields must outlive the table.
//
// Errors: a key that is added twice or asked for with at() although it does not exist is an InvariantError, since keys
// in code are ours; keys of users give faults.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/option.h"

namespace tandem::app {

/// Movable; references to options stay good as long as the table, also while more are added.
class OptionTable {
 public:
  /// Keys are unique, and the keys of a section ("ppo.") follow each other.
  template <typename Field>
  Option& add(std::string key, Field& field, std::string help) {
    return add(std::make_unique<FieldOption<Field>>(std::move(key), field, std::move(help)));
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Option>>& options() const { return options_; }
  /// Null when there is no such key. The search is linear: tables are asked when a run is configured, never while it
  /// trains.
  [[nodiscard]] const Option* find(std::string_view key) const { return find_mutable(key); }
  /// A key that exists; InvariantError otherwise.
  /// The reference stays good as long as the table.
  [[nodiscard]] const Option& at(std::string_view key) const;
  /// Whether the option that `option` needs has a value that it needs.
  [[nodiscard]] bool has_effect(const Option& option) const;
  /// Options of which only one is set, whichever of the two said instead_of().
  [[nodiscard]] std::vector<std::string> rivals_of(const Option& option) const;
  /// The first option of the section `name`, that is, of the part before the dot of its key; null when there is none.
  [[nodiscard]] const Option* first_of_section(const std::string& name) const;

  /// Assigns the settings of one layer. Returns all faults, a sentence each; what has no fault is assigned.
  /// A setting under a former name of its key counts as one of the current name.
  [[nodiscard]] std::vector<std::string> assign(std::vector<Setting> layer);

  /// Sets `key` to what other options and the run's surroundings make of it, which `origin` tells. Returns the fault,
  /// if it is one.
  [[nodiscard]] std::optional<std::string> resolve(std::string_view key, const std::string& text, const Origin& origin);
  /// Takes back what was set: an optional option holds nothing then, any other its default.
  void clear(std::string_view key) { find_mutable(key)->clear(); }

  /// The setting in force as a fault: "KEY = VALUE (PLACE): PROBLEM".
  [[nodiscard]] std::string fault(std::string_view key, const std::string& problem) const;

 private:
  using GivenSettings = std::map<std::string, const Setting*, std::less<>>;  // of a layer, by key
  /// Throws InvariantError when the key exists.
  Option& add(std::unique_ptr<Option> option);
  /// Null when there is no such key.
  [[nodiscard]] Option* find_mutable(std::string_view key) const;
  /// A fault about a key that does not exist, with what may have been meant.
  [[nodiscard]] std::string unknown(const Setting& setting) const;
  /// Says which rival of `option` the same layer has set; nothing when there is none.
  [[nodiscard]] std::optional<std::string> contradiction(const Option& option, const GivenSettings& given) const;

  std::vector<std::unique_ptr<Option>> options_;  // pointers, since add() hands out references
};

/// Adds options that have a section, need or lifetime in common. The table must outlive it.
class OptionSection {
 public:
  /// `name`: of the section; empty: the keys have none.
  OptionSection(OptionTable& table, std::string name, Option::Needed needed = {}, Lifetime lifetime = Lifetime::kRun)
      : table_(table), name_(std::move(name)), needed_(std::move(needed)), lifetime_(lifetime) {}

  template <typename Field>
  Option& add(const std::string& leaf, Field& field, std::string help) {
    Option& option = table_.add(name_.empty() ? leaf : name_ + "." + leaf, field, std::move(help));
    return option.only_with(needed_).lives(lifetime_);
  }

 private:
  OptionTable& table_;
  const std::string name_;
  const Option::Needed needed_;
  const Lifetime lifetime_;
};

}  // namespace tandem::app
