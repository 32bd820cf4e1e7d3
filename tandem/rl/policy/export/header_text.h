// rl/policy/export/header_text.h: numbers and arrays as the text of a C++ header, from which a compiler makes the same
// bits again.
//
// Threads: free functions on values. Errors: ConfigError for a number that has no text.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::rl {

/// "0.1F", "1e-08F": the fewest digits that compilers read as the same float. Throws ConfigError when it is not finite.
[[nodiscard]] std::string literal(float number);
/// A double may be infinite.
[[nodiscard]] std::string literal(double number);
[[nodiscard]] std::string literal(std::int64_t number);

/// "{1.0F, 2.0F}", in lines of at most 120 columns.
template <typename Number>
[[nodiscard]] std::string array_text(const std::vector<Number>& numbers);

/// The numbers of a tensor of that type in their order. Throws ConfigError for a tensor of float32 or float64 of
/// another type.
template <typename Number>
[[nodiscard]] std::vector<Number> numbers_of(const at::Tensor& tensor);

/// `text` as what may stand behind "//": in one line that does not go on in the next.
[[nodiscard]] std::string comment_text(const std::string& text);

}  // namespace tandem::rl
