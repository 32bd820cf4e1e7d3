#include "tandem/rl/policy/export/header_text.h"

#include <ATen/ATen.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// It is in the form of std::to_chars(), which names no locale; a whole number gets a fraction, since "1F" is none.
template <typename Number>
std::string shortest(Number number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string literal(float number) {
  if (!std::isfinite(number))
    throw ConfigError(concat("the policy has a weight or a statistic that is ", number,
                             ": it has diverged, and is not exported as C++. An earlier checkpoint may be whole"));
  return shortest(number) + "F";
}

std::string literal(double number) {
  if (std::isinf(number)) return concat(number < 0 ? "-" : "", "std::numeric_limits<double>::infinity()");
  if (std::isnan(number))
    throw ConfigError("a bound or a statistic of the policy is NaN, which is not exported as C++");
  return shortest(number);
}

// C++ has no negative literals: the most negative number would be minus one that does not exist.
std::string literal(std::int64_t number) {
  return number == std::numeric_limits<std::int64_t>::min() ? "(-9223372036854775807LL - 1)" : concat(number, "LL");
}

// Numbers of a line are gathered until the next one would not fit.
template <typename Number>
std::string array_text(const std::vector<Number>& numbers) {
  constexpr std::size_t kColumns = 116;
  std::string text = "{", line;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string next = literal(numbers[i]) + (i + 1 < numbers.size() ? ", " : "");
    if (line.size() + next.size() > kColumns) {
      text += line + "\n    ";
      line.clear();
    }
    line += next;
  }
  return text + line + "}";
}

// A policy on a device is copied here first. Parameters of float64 would lose digits, and what computes with them, too.
template <typename Number>
std::vector<Number> numbers_of(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().to(at::kCPU).contiguous();
  if (here.scalar_type() != c10::CppTypeToScalarType<Number>())
    throw ConfigError(
        concat("the policy has a parameter of ", here.scalar_type(), "; C++ is exported of float32 alone"));
  const Number* begin = here.const_data_ptr<Number>();
  return {begin, begin + here.numel()};
}

template std::string array_text(const std::vector<float>&);
template std::string array_text(const std::vector<double>&);
template std::string array_text(const std::vector<std::int64_t>&);
template std::vector<float> numbers_of(const at::Tensor&);
template std::vector<double> numbers_of(const at::Tensor&);

// A backslash at the end of a line joins it with the next one; in C++11 "??/" is a backslash, too.
std::string comment_text(const std::string& text) {
  std::string clean = printable(text);
  for (char& c : clean) {
    if (c == '\\' || c == '\n' || c == '\r') c = '/';
    if (c == '?') c = '.';
  }
  return clean;
}

}  // namespace tandem::rl
