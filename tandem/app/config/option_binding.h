// app/config/option_binding.h: ties one option to one field of a struct, whatever the field's type.
//
// Fields may be int, int64, double, bool, an enumeration with Choices, string, path; std::optional of these, which
// takes one word more ("none", "auto") for nothing; and std::vector of these, written [64, 64] in YAML and 64,64 in a
// flag.
//
// Ownership: the field must outlive the binding.
//
// Threads: single-thread. Errors: none are thrown; a value that does not fit is an answer, so that all faults of a
// layer can be told together.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tandem/app/config/setting.h"
#include "tandem/app/config/value_format.h"

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

/// Hides the field's type from the table. `range`, `absent_word` and `words` are set while the table is built and read
/// by every later assign().
class OptionBinding {
 public:
  virtual ~OptionBinding() = default;

  /// Sets the field; or says what is wrong and leaves it as it was.
  [[nodiscard]] virtual std::optional<std::string> assign(const RawValue& value) = 0;
  /// The field's value as YAML.
  /// Reading the text again gives the same value.
  [[nodiscard]] virtual std::string text() const = 0;
  /// Says for messages and help: "an integer, at least 1, or auto".
  [[nodiscard]] virtual std::string expected() const = 0;
  /// Whether the field is an optional that holds nothing.
  [[nodiscard]] virtual bool is_absent() const { return false; }
  /// Whether the field is a vector.
  [[nodiscard]] virtual bool is_list() const { return false; }
  /// Empties an optional field, and gives any other the value that it had when it was bound.
  virtual void clear() = 0;

  Range range;
  std::string absent_word = "none";  // of an optional field
  std::vector<std::string> words;    // of a text field: those that it takes; empty: any
};

namespace binding_detail {

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// Splits at commas and trims spaces; brackets around the whole are dropped. An empty text gives no items.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);
/// "an integer at least 1": the words of a text field where it has some, else `kind` with the range.
[[nodiscard]] std::string expected_text(const std::string& kind, const OptionBinding& limits);
/// Compares exactly, with case.
[[nodiscard]] bool is_word(const std::string& text, const std::vector<std::string>& words);

/// Returns nothing when the text is no T, a number is out of range, or a text field does not take the word.
template <typename T>
std::optional<T> read_within(const std::string& text, const OptionBinding& limits) {
  std::optional<T> value = ValueFormat<T>::read(text);
  if constexpr (std::is_arithmetic_v<T>) {
    if (value && !limits.range.contains(static_cast<double>(*value))) return std::nullopt;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (value && !limits.words.empty() && !is_word(*value, limits.words)) return std::nullopt;
  }
  return value;
}

}  // namespace binding_detail

/// A single value, or an optional one.
/// The value at construction is the default that clear() restores.
/// A value that does not fit leaves the field as it was.
template <typename Field>
class ScalarBinding final : public OptionBinding {
 public:
  /// Keeps a reference to the field and a copy of its value.
  explicit ScalarBinding(Field& field) : field_(field), default_(field) {}

  std::optional<std::string> assign(const RawValue& value) override {
    if constexpr (binding_detail::kIsOptional<Field>) {
      const bool absent =
          value.kind == RawValue::Kind::kNull || (value.kind == RawValue::Kind::kText && value.text == absent_word);
      if (absent) return clear(), std::nullopt;
    }
    std::optional<Value> read;
    if (value.kind == RawValue::Kind::kText) read = binding_detail::read_within<Value>(value.text, *this);
    if (!read) return "expected " + expected();
    field_ = *std::move(read);  // NOLINT(bugprone-optional-value-conversion): fields may be optional themselves
    return std::nullopt;
  }

  [[nodiscard]] std::string text() const override {
    if constexpr (binding_detail::kIsOptional<Field>) {
      return field_ ? ValueFormat<Value>::write(*field_) : absent_word;
    } else {
      return ValueFormat<Value>::write(field_);
    }
  }

  [[nodiscard]] std::string expected() const override {
    std::string text = binding_detail::expected_text(ValueFormat<Value>::kind(), *this);
    if constexpr (binding_detail::kIsOptional<Field>) text += ", or " + absent_word;
    return text;
  }

  [[nodiscard]] bool is_absent() const override {
    if constexpr (binding_detail::kIsOptional<Field>) return !field_;
    return false;
  }
  void clear() override {
    if constexpr (binding_detail::kIsOptional<Field>) {
      field_.reset();
    } else {
      field_ = default_;
    }
  }

 private:
  template <typename T>
  struct ValueOf {
    using type = T;
  };
  template <typename T>
  struct ValueOf<std::optional<T>> {
    using type = T;
  };
  // the type within the optional, or the field's own
  using Value = typename ValueOf<Field>::type;

  Field& field_;
  // the value when the field was bound
  const Field default_;
};

/// An assignment replaces the whole list; elements of layers are never joined.
template <typename Value>
class ListBinding final : public OptionBinding {
 public:
  explicit ListBinding(std::vector<Value>& field) : field_(field), default_(field) {}

  std::optional<std::string> assign(const RawValue& value) override {
    const bool is_list = value.kind == RawValue::Kind::kList;
    if (!is_list && (value.kind != RawValue::Kind::kText || value.text.empty()))
      return "expected " + expected() + "; an empty one is written []";
    std::vector<Value> read;
    for (const std::string& item : is_list ? value.items : binding_detail::split_list(value.text)) {
      std::optional<Value> element = binding_detail::read_within<Value>(item, *this);
      if (!element) return "expected " + expected() + "; found \"" + describe(RawValue::of_text(item)) + "\" in it";
      read.push_back(*std::move(element));
    }
    field_ = std::move(read);
    return std::nullopt;
  }

  [[nodiscard]] std::string text() const override {
    std::string items;
    for (const Value& value : field_) items += (items.empty() ? "" : ", ") + ValueFormat<Value>::write(value);
    return "[" + items + "]";
  }

  [[nodiscard]] std::string expected() const override {
    return "a list, each " + binding_detail::expected_text(ValueFormat<Value>::kind(), *this);
  }
  [[nodiscard]] bool is_list() const override { return true; }
  void clear() override { field_ = default_; }

 private:
  std::vector<Value>& field_;
  const std::vector<Value> default_;
};

// The field's type picks the binding; a type without ValueFormat does not compile.
template <typename Field>
[[nodiscard]] std::unique_ptr<OptionBinding> bind(Field& field) {
  if constexpr (binding_detail::kIsList<Field>) {
    return std::make_unique<ListBinding<typename Field::value_type>>(field);
  } else {
    return std::make_unique<ScalarBinding<Field>>(field);
  }
}

}  // namespace tandem::app
