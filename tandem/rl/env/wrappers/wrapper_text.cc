#include "tandem/rl/env/wrappers/wrapper_text.h"

#include <cmath>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// Takes what is behind the mark off the text; nothing where there is no mark.
std::optional<std::string> take_behind(std::string& text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return std::nullopt;
  std::string behind = text.substr(at + 1);
  text.erase(at);
  return behind;
}

}  // namespace

// The leaf comes off first: its name may hold any of the other marks.
WrapperText::WrapperText(std::string text) : text_(text) {
  leaf_ = take_behind(text, '@').value_or("");
  value_ = take_behind(text, '=');
  if (value_) word_ = take_behind(*value_, ':').value_or("");
  name_ = std::move(text);
}

void WrapperText::fail(const std::string& why) const { throw ConfigError(concat(text_, ": ", why)); }

std::int64_t WrapperText::integer(std::int64_t least, std::int64_t most) const {
  const auto number = parse_number<std::int64_t>(value());
  if (!number || *number < least || *number > most) fail(concat("takes an integer from ", least, " to ", most));
  return *number;
}

double WrapperText::number(double least, double most) const {
  const auto number = parse_number<double>(value());
  if (!number || !(*number >= least && *number <= most)) fail(concat("takes a number from ", least, " to ", most));
  return *number;
}

ValueRange WrapperText::range(const ValueRange& standard) const {
  if (!value_) return standard;
  constexpr double kMost = 1e9;
  const std::size_t dots = value_->find("..");
  if (dots != std::string::npos) {
    const auto low = parse_number<double>(value_->substr(0, dots)),
               high = parse_number<double>(value_->substr(dots + 2));
    if (low && high && std::abs(*low) <= kMost && std::abs(*high) <= kMost && *low < *high)
      return {.low = *low, .high = *high};
  }
  fail(concat("takes LOW..HIGH, two numbers within -1e9 .. 1e9, the lower one first, as in -1..1"));
}

ImageSize WrapperText::image_size(std::int64_t most) const {
  const std::string all = value();
  const std::size_t cross = all.find('x');
  const auto height = parse_number<std::int64_t>(all.substr(0, cross));
  const auto width = cross == std::string::npos ? height : parse_number<std::int64_t>(all.substr(cross + 1));
  if (!height || !width || *height < 1 || *width < 1 || *height > most || *width > most)
    fail(concat("takes a side length from 1 to ", most, ", or HEIGHTxWIDTH of such, as in 84x84"));
  return {.height = *height, .width = *width};
}

bool WrapperText::has_word(const std::string& word) const {
  if (!word_.empty() && word_ != word) fail(concat("there is no '", word_, "' for it; there is '", word, "'"));
  return !word_.empty();
}

void WrapperText::refuse_value() const {
  if (value_) fail(concat("takes no value; write ", name_));
}
void WrapperText::refuse_word() const {
  if (!word_.empty()) fail(concat("takes no word behind its value, and there is '", word_, "'"));
}
void WrapperText::refuse_leaf() const {
  if (!leaf_.empty()) fail("is not about one leaf of the observation; leave out what is behind @");
}

}  // namespace tandem::rl
