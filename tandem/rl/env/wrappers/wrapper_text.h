// rl/env/wrappers/wrapper_text.h: the parts of a wrapper's text, NAME=VALUE:WORD@LEAF, and numbers within bounds.
//
// Plain values. Threads: all. Errors: ConfigError with the text and what would be right.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/env/wrappers/env_wrapper.h"

namespace tandem::rl {

/// A text cut into its parts, and what a wrapper reads from them.
class WrapperText {
 public:
  explicit WrapperText(std::string text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& leaf() const { return leaf_; }
  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  [[nodiscard]] std::string value() const { return value_.value_or(""); }

  /// A number within bounds, both inclusive.
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const;
  [[nodiscard]] double number(double least, double most) const;
  /// "LOW..HIGH"; `standard` where there is no value.
  [[nodiscard]] ValueRange range(const ValueRange& standard) const;
  /// "84" or "84x96", height first.
  [[nodiscard]] ImageSize image_size(std::int64_t most) const;
  /// Whether `word`, the only one that the wrapper knows, is there.
  [[nodiscard]] bool has_word(const std::string& word) const;

  /// Throws unless there is no value, no word, or no leaf.
  void refuse_value() const;
  void refuse_word() const;
  void refuse_leaf() const;
  /// Throws ConfigError: "TEXT: WHY".
  [[noreturn]] void fail(const std::string& why) const;

 private:
  const std::string text_;
  std::string name_, word_, leaf_;
  std::optional<std::string> value_;
};

}  // namespace tandem::rl
