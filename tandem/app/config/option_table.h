// app/config/option_table.h: the options of a program: keys, help, limits, and the fields that they fill.
//
//   OptionTable table;
//   table.add("ppo.gamma", options.ppo.gamma, "Discount of a step's reward.").within(0, 1).flag("--gamma");
//   faults = table.assign(settings_of_one_layer);
//
// Fields may be int, int64, double, bool, an enumeration with kChoices, string, path; std::optional of these, which
// takes one word more ("none", "auto") for nothing; and std::vector of these, written [64, 64] in YAML and 64,64 in a
// flag. The field's value when the option is made is the default. Layers are assigned from the weakest to the
// strongest; within one layer a key is given once.
//
// Threads: single-thread. Ownership: the struct with the fields must outlive the table and its options.
//
// Errors: a key that is added twice or asked for with at() although it does not exist is an InvariantError, since keys
// in code are ours. What users give gives faults, which are answers and not exceptions, so that all faults of a layer
// can be told together.
#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {

/// Bounds of a number, or of every number of a list.
/// Compared as doubles, in which counts up to 2^53 are exact.
struct Range {
  std::optional<double> above = {}, from = {}, to = {};  // above: excluded; from, to: included

  [[nodiscard]] bool contains(double value) const {
    return !(above && value <= *above) && !(from && value < *from) && !(to && value > *to);
  }
  /// "at least 1", "above 0", "from 0 to 1"; empty without bounds.
  [[nodiscard]] std::string text() const;
};

/// Whether a run records an option, and whether a resume may change it.
/// The default is kRun: an option that nothing else is said of cannot change what a run computes half-way.
enum class Lifetime {
  kRun,    // belongs to the run: recorded, and the same after a resume
  kStage,  // decides what is learned, and may be given anew at a resume: the learning rate, the entropy bonus
  kPart,   // recorded, and may be given anew at a resume: how long, where, how often to save
  kCall,   // of one call of the program, not recorded: where to put the run, how much to print
};

/// What of a text, or of each text of a list, is a path. It is kept whole, since a run may be resumed from another
/// folder.
enum class KeptPath {
  kNothing,
  kText,
  /// "NAME=VALUE" whose VALUE begins with ./ or ../, as a shell's users write paths: what NAME means is known only to
  /// an environment, which may not be there yet.
  kMarkedValue,
  /// Where it has a slash; without one it is a word that is looked up in PATH.
  kProgram,
};

/// The usual limit of a count: of environments, of rows, of steps between updates.
inline constexpr double kLargestCount = 1'000'000;

/// Everything about an option but the type of its field. The setters return the option itself, so that a table reads as
/// one sentence an option. All are called before the first assign().
class Option {
 public:
  virtual ~Option() = default;

  Option& at_least(double limit) { return range_.from = limit, *this; }
  Option& at_most(double limit) { return range_.to = limit, *this; }
  Option& above(double limit) { return range_.above = limit, *this; }
  Option& within(double low, double high) { return at_least(low).at_most(high); }
  /// The words that a text field takes.
  Option& one_of(std::vector<std::string> words) { return words_ = std::move(words), *this; }
  /// The word for an optional field that holds nothing; "none" unless said.
  Option& absent_as(std::string word);
  /// Also a flag of its own on the command line.
  Option& flag(std::string name) { return flag_ = std::move(name), *this; }
  /// Setting this one clears `key`, which a weaker layer may have set, and the other way round; both in one layer
  /// contradict each other. May be called for several keys.
  Option& instead_of(std::string key) { return rivals_.push_back(std::move(key)), *this; }
  /// The option and its values without which this one has no effect; asking for this one then is a fault.
  /// Both are compared as texts.
  struct Needed {
    std::string key = {};                 // empty: nothing
    std::vector<std::string> texts = {};  // empty: any value, but not none

    /// For messages: "algo: ppo", or the key alone where any value will do.
    [[nodiscard]] std::string text() const;
    /// Whether an option of this key, or one that stands in for it, has such a value.
    [[nodiscard]] bool is_met_by(const Option& option) const;
  };
  Option& only_with(Needed needed) { return needed_ = std::move(needed), *this; }
  Option& only_with(std::string key, std::string text) { return only_with({std::move(key), {std::move(text)}}); }
  /// A count of each rank, which becomes the run's total in the option `key` before the run starts.
  Option& for_each_rank(std::string key) { return total_ = key, instead_of(std::move(key)); }
  Option& kept_absolute(KeptPath path = KeptPath::kText) { return kept_path_ = path, *this; }
  /// kRun unless said.
  Option& lives(Lifetime lifetime) { return lifetime_ = lifetime, *this; }

  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const std::string& help() const { return help_; }
  [[nodiscard]] const std::string& flag() const { return flag_; }                   // empty: none
  [[nodiscard]] const std::vector<std::string>& rivals() const { return rivals_; }  // see OptionTable::rivals_of()
  [[nodiscard]] const std::string& total() const { return total_; }                 // empty: it is no count of a rank
  /// Of a family: the key of the option that this one stands in for. Empty: it is no such option.
  [[nodiscard]] const std::string& like() const { return like_; }
  [[nodiscard]] KeptPath kept_path() const { return kept_path_; }
  [[nodiscard]] const Needed& needed() const { return needed_; }
  [[nodiscard]] Lifetime lifetime() const { return lifetime_; }
  [[nodiscard]] const std::string& absent_word() const { return absent_word_; }
  /// The value that the field had at first, as text() writes it.
  [[nodiscard]] const std::string& default_text() const { return default_text_; }
  /// Whether some setting of it was at fault, so that the value is not what was asked for.
  [[nodiscard]] bool is_faulty() const { return is_faulty_; }
  /// Where the value came from.
  [[nodiscard]] const Origin& origin() const { return origin_; }

  /// The value in force as YAML; reading the text again gives the same value.
  [[nodiscard]] virtual std::string text() const = 0;
  /// Says for messages and help: "an integer at least 1, or auto".
  [[nodiscard]] virtual std::string expected() const = 0;
  /// Whether the field is an optional that holds nothing.
  [[nodiscard]] virtual bool is_absent() const = 0;
  /// Whether the field is a vector.
  [[nodiscard]] virtual bool is_list() const = 0;
  /// Whether the field is an optional, which takes absent_word(), too. Such a field holds nothing, or a value of
  /// value_type(); is_absent() says which of the two it is.
  [[nodiscard]] virtual bool is_optional() const = 0;
  /// The type of a value, or of each element of a list. Numbers are told apart: a field of integers takes no 0.5, and
  /// one of numbers takes 1.
  [[nodiscard]] virtual ValueType value_type() const = 0;
  /// The words that a value takes, in the order of help; empty unless it is a kWord. An optional's absent_word() is not
  /// among them.
  [[nodiscard]] virtual std::vector<std::string> value_words() const = 0;

  /// Returns what is wrong with the value; the field then keeps the weaker layer's value and the option counts as
  /// faulty for good.
  [[nodiscard]] std::optional<std::string> assign(const Setting& setting);
  /// Empties an optional field, and gives any other its default. The origin becomes that of a default.
  void clear();
  void mark_faulty() { is_faulty_ = true; }

 protected:
  Option(std::string key, std::string help) : key_(std::move(key)), help_(std::move(help)) {}

  /// Sets the field; or says what is wrong and leaves it as it was.
  [[nodiscard]] virtual std::optional<std::string> take(const RawValue& value) = 0;
  virtual void restore() = 0;
  /// "an integer at least 1": the words of a text field where it has some, else `kind` with the range.
  [[nodiscard]] std::string expected_value(const std::string& kind) const;

  std::string default_text_, like_;
  Range range_;
  std::vector<std::string> words_;  // of a text field: those that it takes, with case; empty: any

 private:
  std::string key_, help_, flag_, total_, absent_word_ = "none";
  std::vector<std::string> rivals_;
  Needed needed_;
  Lifetime lifetime_ = Lifetime::kRun;
  KeptPath kept_path_ = KeptPath::kNothing;
  bool is_faulty_ = false;
  // default until a layer has assigned the option
  Origin origin_;
};

/// Whether a resume takes it: an option of a part or a stage, or one of a call that says how to show or to measure the
/// run. Which run is meant (run_dir, resume) is said by the resume itself.
[[nodiscard]] bool may_be_given_at_resume(const Option& option);
/// Whether `tandem tune` takes it as a flag: not what one training does, since the command has runs of its own.
[[nodiscard]] bool may_be_given_to_tune(const Option& option);

/// Splits at commas and trims spaces; brackets around the whole are dropped. An empty text gives no items.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

namespace option_detail {

template <typename T>
struct FieldType {
  using Value = T;
  static constexpr bool kIsOptional = false, kIsList = false;
};
template <typename T>
struct FieldType<std::optional<T>> : FieldType<T> {
  static constexpr bool kIsOptional = true;
};
template <typename T>
struct FieldType<std::vector<T>> : FieldType<T> {
  static constexpr bool kIsList = true;
};

}  // namespace option_detail

/// An option whose field is a single value, an optional one, or a list. A type without ValueFormat does not compile.
template <typename Field>
class FieldOption final : public Option {
  using Type = option_detail::FieldType<Field>;
  using Value = typename Type::Value;  // within the optional or the list, or the field's own type

 public:
  /// Keeps a reference to the field and a copy of its value.
  FieldOption(std::string key, Field& field, std::string help)
      : Option(std::move(key), std::move(help)), field_(field), default_(field) {
    default_text_ = FieldOption::text();
  }

  [[nodiscard]] std::string text() const override {
    if constexpr (Type::kIsList) {
      return "[" + joined(field_, ValueFormat<Value>::write) + "]";
    } else if constexpr (Type::kIsOptional) {
      return field_ ? ValueFormat<Value>::write(*field_) : absent_word();
    } else {
      return ValueFormat<Value>::write(field_);
    }
  }
  [[nodiscard]] std::string expected() const override {
    const std::string value = expected_value(ValueFormat<Value>::kind());
    if constexpr (Type::kIsList) return "a list, each " + value;
    return Type::kIsOptional ? value + ", or " + absent_word() : value;
  }
  [[nodiscard]] bool is_absent() const override {
    if constexpr (Type::kIsOptional) return !field_;
    return false;
  }
  [[nodiscard]] bool is_list() const override { return Type::kIsList; }
  [[nodiscard]] bool is_optional() const override { return Type::kIsOptional; }
  [[nodiscard]] ValueType value_type() const override {
    if constexpr (HasChoices<Value>) return ValueType::kWord;
    if constexpr (std::is_same_v<Value, bool>) return ValueType::kSwitch;
    if constexpr (std::is_integral_v<Value>) return ValueType::kInteger;
    if constexpr (std::is_floating_point_v<Value>) return ValueType::kNumber;
    if constexpr (std::is_same_v<Value, std::filesystem::path>) return ValueType::kPath;
    return words_.empty() ? ValueType::kText : ValueType::kWord;
  }
  [[nodiscard]] std::vector<std::string> value_words() const override {
    if constexpr (HasChoices<Value>) {
      std::vector<std::string> words;
      for (const Choice<Value>& choice : kChoices<Value>) words.emplace_back(choice.word);
      return words;
    } else {
      return words_;
    }
  }

 private:
  // An assignment replaces a whole list; elements of layers are never joined.
  std::optional<std::string> take(const RawValue& value) override {
    const bool is_text = value.kind == RawValue::Kind::kText;
    if constexpr (Type::kIsList) {
      const bool is_list = value.kind == RawValue::Kind::kList;
      if (!is_list && (!is_text || value.text.empty()))
        return "expected " + expected() + "; an empty one is written []";
      Field read;
      for (const std::string& item : is_list ? value.items : split_list(value.text)) {
        std::optional<Value> element = read_within(item);
        if (!element) return "expected " + expected() + "; found \"" + describe(RawValue::of_text(item)) + "\" in it";
        read.push_back(*std::move(element));
      }
      field_ = std::move(read);
    } else {
      if constexpr (Type::kIsOptional) {
        if (value.kind == RawValue::Kind::kNull || (is_text && value.text == absent_word()))
          return restore(), std::nullopt;
      }
      std::optional<Value> read;
      if (is_text) read = read_within(value.text);
      if (!read) return "expected " + expected();
      field_ = *std::move(read);  // NOLINT(bugprone-optional-value-conversion): fields may be optional themselves
    }
    return std::nullopt;
  }
  void restore() override {
    if constexpr (Type::kIsOptional) {
      field_.reset();
    } else {
      field_ = default_;
    }
  }
  // Nothing when the text is no Value, a number is out of range, or a text field does not take the word.
  [[nodiscard]] std::optional<Value> read_within(const std::string& text) const {
    std::optional<Value> value = ValueFormat<Value>::read(text);
    if constexpr (std::is_arithmetic_v<Value>) {
      if (value && !range_.contains(static_cast<double>(*value))) return std::nullopt;
    } else if constexpr (std::is_same_v<Value, std::string>) {
      if (value && !words_.empty() && std::ranges::count(words_, *value) == 0) return std::nullopt;
    }
    return value;
  }

  Field& field_;
  const Field default_;
};

/// Options of whose keys users choose a part, as in policies.NAME.KEY. Each is made when a layer sets it, behind all
/// others of the table.
struct OptionFamily {
  std::string section;  // that all their keys begin with, before a dot
  std::string help;
  /// Makes the option of a key. Throws ConfigError with the reason why there is none.
  std::function<std::unique_ptr<Option>(const std::string& key)> make;
};

/// Movable; references to options stay good as long as the table, also while more are added.
class OptionTable {
 public:
  /// Keys are unique, and the keys of a section ("ppo.") follow each other.
  template <typename Field>
  Option& add(std::string key, Field& field, std::string help) {
    return add(std::make_unique<FieldOption<Field>>(std::move(key), field, std::move(help)));
  }

  /// Options are added behind it only by itself.
  void add_family(OptionFamily family) { families_.push_back(std::move(family)); }
  /// Makes the option of a key of a family. Throws ConfigError as the family does.
  Option& add_of_family(const std::string& key);
  /// Takes an option out, whose field is bound as before. The key exists.
  [[nodiscard]] std::unique_ptr<Option> release(std::string_view key);

  [[nodiscard]] const std::vector<OptionFamily>& families() const { return families_; }
  /// The family whose section `key` is, or is in; null when there is none.
  [[nodiscard]] const OptionFamily* family_of(std::string_view key) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Option>>& options() const { return options_; }
  /// Null when there is no such key. The search is linear: tables are asked when a run is configured, never while it
  /// trains.
  [[nodiscard]] const Option* find(std::string_view key) const { return find_mutable(key); }
  /// A key that exists; InvariantError otherwise.
  /// The reference stays good as long as the table.
  [[nodiscard]] const Option& at(std::string_view key) const;
  /// Whether the option that `option` needs, or one that stands in for it, has a value that it needs.
  [[nodiscard]] bool has_effect(const Option& option) const;
  /// Options of which only one is set, whichever of the two said instead_of().
  [[nodiscard]] std::vector<std::string> rivals_of(const Option& option) const;
  /// The first option of the section `name`, that is, of the part before the dot of its key; null when there is none.
  [[nodiscard]] const Option* first_of_section(const std::string& name) const;
  /// Whether a mapping under `key` is one of further keys: of a section, or of a family's and of a name in it.
  [[nodiscard]] bool is_section(const std::string& key) const;

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
  /// The option of the setting's key, made where it is one of a family; or null, with the fault.
  [[nodiscard]] Option* find_or_make(const Setting& setting, std::string& fault);
  /// A fault about a key that does not exist, with what may have been meant.
  [[nodiscard]] std::string unknown(const Setting& setting) const;
  /// Says which rival of `option` the same layer has set; nothing when there is none.
  [[nodiscard]] std::optional<std::string> contradiction(const Option& option, const GivenSettings& given) const;

  std::vector<std::unique_ptr<Option>> options_;  // pointers, since add() hands out references
  std::vector<OptionFamily> families_;
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

/// Makes the paths whole that are kept absolute and start at `folder`: a run may be resumed from another one.
void make_absolute(const OptionTable& table, std::vector<Setting>& settings, const std::filesystem::path& folder);

}  // namespace tandem::app
