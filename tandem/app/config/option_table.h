// app/config/option_table.h: the options of a program: keys, help, limits, and the fields that they fill.
//
//   OptionTable table;
//   table.add("ppo.gamma", options.ppo.gamma, "Discount of a step's reward.").within(0, 1).flag("--gamma");
//   faults = table.assign(settings_of_one_layer);
//
// The field's value at the time of add() is the default. Layers are assigned from the weakest to the strongest; within
// one layer a key is given once.
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

#include "tandem/app/config/option_binding.h"
#include "tandem/app/config/setting.h"

namespace tandem::app {

/// Whether a run records an option, and whether a resume may change it.
/// The default is kRun: an option that nothing else is said of cannot change what a run computes half-way.
enum class Lifetime {
  kRun,   // belongs to the run: recorded, and the same after a resume
  kPart,  // recorded, and may be given anew at a resume: how long, where, how often to save
  kCall,  // of one call of the program, not recorded: where to put the run, how much to print
};

/// The usual limit of a count: of environments, of rows, of steps between updates.
inline constexpr double kLargestCount = 1'000'000;

/// The setters return the option itself, so that a table reads as one sentence an option. All are called before the
/// first assign().
class Option {
 public:
  Option(std::string key, std::string help, std::unique_ptr<OptionBinding> binding);

  Option& at_least(double limit) { return binding_->range.from = limit, *this; }
  Option& at_most(double limit) { return binding_->range.to = limit, *this; }
  Option& above(double limit) { return binding_->range.above = limit, *this; }
  Option& within(double low, double high) { return at_least(low).at_most(high); }
  /// The words that a text field takes.
  Option& one_of(std::vector<std::string> words) { return binding_->words = std::move(words), *this; }
  /// The word for an optional field that holds nothing; "none" unless said.
  Option& absent_as(std::string word);
  /// Also a flag of its own on the command line.
  Option& flag(std::string name) { return flag_ = std::move(name), *this; }
  /// Setting this one clears `key`, which a weaker layer may have set, and the other way round; both in one layer
  /// contradict each other. May be called for several keys.
  Option& instead_of(std::string key) { return rivals_.push_back(std::move(key)), *this; }
  /// The option means something only while the option `key` has one of the values `texts`; asking for it otherwise is a
  /// fault.
  Option& only_with(std::string key, std::vector<std::string> texts) {
    return needed_ = {std::move(key), std::move(texts)}, *this;
  }
  Option& only_with(std::string key, std::string text) {
    return only_with(std::move(key), std::vector{std::move(text)});
  }
  /// A count of each rank, which becomes the run's total in the option `key` before the run starts.
  Option& for_each_rank(std::string key) { return total_ = key, instead_of(std::move(key)); }
  /// A path that is kept whole, since a run may be resumed from another folder.
  Option& kept_absolute() { return is_absolute_ = true, *this; }
  /// kRun unless said.
  Option& lives(Lifetime lifetime) { return lifetime_ = lifetime, *this; }

  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const std::string& help() const { return help_; }
  [[nodiscard]] const std::string& flag() const { return flag_; }                   // empty: none
  [[nodiscard]] const std::vector<std::string>& rivals() const { return rivals_; }  // see OptionTable::rivals_of()
  [[nodiscard]] const std::string& total() const { return total_; }                 // empty: it is no count of a rank
  [[nodiscard]] bool is_kept_absolute() const { return is_absolute_; }
  /// The option and its values without which this one has no effect.
  /// Both are compared as texts.
  struct Needed {
    std::string key = {};  // empty: nothing
    std::vector<std::string> texts = {};
  };
  [[nodiscard]] const Needed& needed() const { return needed_; }
  [[nodiscard]] Lifetime lifetime() const { return lifetime_; }
  /// The value at add(), as text() writes it.
  [[nodiscard]] const std::string& default_text() const { return default_text_; }
  /// The value in force as YAML; expected() says in words what the option takes.
  [[nodiscard]] std::string text() const { return binding_->text(); }
  [[nodiscard]] std::string expected() const { return binding_->expected(); }
  [[nodiscard]] bool is_absent() const { return binding_->is_absent(); }
  [[nodiscard]] const std::string& absent_word() const { return binding_->absent_word; }
  [[nodiscard]] bool is_list() const { return binding_->is_list(); }
  /// Whether some setting of it was at fault, so that the value is not what was asked for.
  [[nodiscard]] bool is_faulty() const { return is_faulty_; }
  /// Where the value came from.
  [[nodiscard]] const Origin& origin() const { return origin_; }

  /// Returns what is wrong with the value; the field then keeps the weaker layer's value and the option counts as
  /// faulty for good.
  [[nodiscard]] std::optional<std::string> assign(const Setting& setting);
  /// The origin becomes that of a default.
  void clear();
  void mark_faulty() { is_faulty_ = true; }

 private:
  std::string key_, help_, flag_, total_, default_text_;
  std::vector<std::string> rivals_;
  Needed needed_;
  Lifetime lifetime_ = Lifetime::kRun;
  bool is_absolute_ = false, is_faulty_ = false;
  // default until a layer has assigned the option
  Origin origin_;
  // never null
  std::unique_ptr<OptionBinding> binding_;
};

/// Movable; references to options stay good as long as the table, also while more are added.
class OptionTable {
 public:
  /// Keys are unique, and the keys of a section ("ppo.") follow each other.
  template <typename Field>
  Option& add(std::string key, Field& field, std::string help) {
    return add(Option(std::move(key), std::move(help), bind(field)));
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Option>>& options() const { return options_; }
  /// Null when there is no such key. The search is linear: tables are asked when a run is configured, never while it
  /// trains.
  [[nodiscard]] const Option* find(std::string_view key) const;
  /// A key that exists; InvariantError otherwise.
  /// The reference stays good as long as the table.
  [[nodiscard]] const Option& at(std::string_view key) const;
  /// Whether the option that `option` needs has a value that it needs.
  [[nodiscard]] bool has_effect(const Option& option) const;
  /// Options of which only one is set, whichever of the two said instead_of().
  [[nodiscard]] std::vector<std::string> rivals_of(const Option& option) const;
  /// Whether `name` is a section, that is, a part before the dot of some key.
  [[nodiscard]] bool has_section(std::string_view name) const;
  /// In the table's order.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Each section once, in the table's order, which relies on a section's keys following each other.
  [[nodiscard]] std::vector<std::string> sections() const;

  /// Assigns the settings of one layer. Returns all faults, a sentence each; what has no fault is assigned.
  /// A setting under a former name of its key (other_names.h) counts as one of the current name.
  [[nodiscard]] std::vector<std::string> assign(std::vector<Setting> layer);

  /// Sets `key` to what other options and the run's surroundings make of it, which `origin` tells. Returns the fault,
  /// if it is one.
  [[nodiscard]] std::optional<std::string> resolve(std::string_view key, const std::string& text, const Origin& origin);
  /// Takes back what was set: an optional option holds nothing then, any other its default.
  void clear(std::string_view key);

  /// The setting in force as a fault: "KEY = VALUE (PLACE): PROBLEM".
  [[nodiscard]] std::string fault(std::string_view key, const std::string& problem) const;

 private:
  using GivenSettings = std::map<std::string, const Setting*, std::less<>>;  // of a layer, by key
  /// Throws InvariantError when the key exists.
  Option& add(Option option);
  /// Null when there is no such key.
  Option* find_mutable(std::string_view key);
  /// A fault about a key that does not exist, with what may have been meant.
  [[nodiscard]] std::string unknown(const Setting& setting) const;
  /// Says which rival of `option` the same layer has set; nothing when there is none.
  [[nodiscard]] std::optional<std::string> contradiction(const Option& option, const GivenSettings& given) const;

  std::vector<std::unique_ptr<Option>> options_;  // pointers, since add() hands out references
};

}  // namespace tandem::app
