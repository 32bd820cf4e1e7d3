#include "tandem/rl/env/env_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "tandem/base/edit_distance.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// The shortest text that reads back as the same number.
std::string number_text(double number) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

bool is_number(const EnvOption& option) { return std::holds_alternative<double>(option.standard); }
bool is_integer(const EnvOption& option) { return std::holds_alternative<std::int64_t>(option.standard); }

std::string limits_text(const EnvOption& option) {
  const auto& [least, most, words] = option.limits;
  if (!words.empty()) return concat(" of ", joined(words));
  if (std::isinf(least) && std::isinf(most)) return "";
  if (std::isinf(most)) return concat(" at least ", least);
  return std::isinf(least) ? concat(" at most ", most) : concat(" from ", least, " to ", most);
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void refuse(const EnvOption& option, std::string_view text, const std::string& why) {
  throw ConfigError(concat(option.name, "=", text, ": ", why));
}

// A value of the option's type and within its limits.
std::optional<EnvOptionValue> read_value(const EnvOption& option, std::string_view text) {
  const auto& [least, most, words] = option.limits;
  if (is_number(option)) {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number) || *number < least || *number > most) return std::nullopt;
    return *number;
  }
  if (is_integer(option)) {
    const auto number = parse_number<std::int64_t>(text);
    if (!number || static_cast<double>(*number) < least || static_cast<double>(*number) > most) return std::nullopt;
    return *number;
  }
  if (std::holds_alternative<bool>(option.standard)) {
    if (text != "true" && text != "false") return std::nullopt;
    return text == "true";
  }
  if (text.empty() || (!words.empty() && std::ranges::find(words, text) == words.end())) return std::nullopt;
  return std::string(text);
}

// "uniform(0.8, 1.2)" is its name and the texts between the brackets; a text without brackets at its end is neither.
struct Call {
  std::string_view name;
  std::vector<std::string_view> arguments;
};
std::optional<Call> read_call(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return std::nullopt;
  Call call{.name = stripped(text.substr(0, open)), .arguments = {}};
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  for (;;) {
    const std::size_t comma = rest.find(',');
    call.arguments.push_back(stripped(rest.substr(0, comma)));
    if (comma == std::string_view::npos) return call;
    rest.remove_prefix(comma + 1);
  }
}

double as_double(const EnvOptionValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

// Back to the type of `like`.
EnvOptionValue as_type_of(const EnvOptionValue& like, double number) {
  if (std::holds_alternative<double>(like)) return number;
  return static_cast<std::int64_t>(std::llround(number));
}

std::string nearest_name(const std::string& name, const std::vector<EnvOption>& options) {
  const auto distance = [&](const EnvOption& option) { return edit_distance(name, option.name); };
  const auto nearest = std::ranges::min_element(options, {}, distance);
  const int allowed = std::max(1, static_cast<int>(name.size()) / 3);
  if (nearest != options.end() && distance(*nearest) <= allowed) return concat("; did you mean '", nearest->name, "'?");
  return concat("; there are ", joined(options, [](const EnvOption& option) { return option.name; }));
}

bool is_set_before(const EnvOptionTexts& texts, std::size_t place) {
  const std::string& name = texts[place].first;
  return std::ranges::any_of(std::span(texts).first(place), [&](const auto& text) { return text.first == name; });
}

std::string set_twice(const EnvOptionTexts::value_type& option) {
  return concat(option.first, "=", option.second, ": ", option.first, " is set twice");
}

}  // namespace

std::string text_of(const EnvOptionValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return std::get<std::string>(value);
}

const char* type_of(const EnvOption& option) {
  if (is_number(option)) return "a number";
  return is_integer(option) ? "an integer" : std::holds_alternative<bool>(option.standard) ? "true or false" : "a word";
}

EnvLaw::EnvLaw(const EnvOption& option, std::string_view text) {
  const std::string_view plain = stripped(text);
  if (std::optional<EnvOptionValue> value = read_value(option, plain)) {
    values_ = {*std::move(value)};
    return;
  }
  const std::optional<Call> call = read_call(plain);
  const auto wanted = [&] { return concat(type_of(option), limits_text(option)); };
  if (!call) {
    refuse(
        option, text,
        concat("takes ", wanted(),
               is_number(option) || is_integer(option)
                   ? ", or uniform(LOW, HIGH), log_uniform(LOW, HIGH), choice(VALUE, ...) or linear(FROM, TO) of such"
                   : ", or choice(VALUE, ...) of such"));
  }
  for (const std::string_view argument : call->arguments) {
    std::optional<EnvOptionValue> value = read_value(option, argument);
    if (!value) refuse(option, text, concat("'", argument, "' is not ", wanted()));
    values_.push_back(*std::move(value));
  }
  if (call->name == "choice") {
    kind_ = Kind::kChoice;
    return;
  }
  const bool is_linear = call->name == "linear", is_log = call->name == "log_uniform";
  if (!is_linear && !is_log && call->name != "uniform")
    refuse(option, text, concat("there is no '", call->name, "'; there are uniform, log_uniform, choice and linear"));
  if (!is_number(option) && !is_integer(option))
    refuse(option, text, concat(call->name, " is for numbers; ", option.name, " takes choice(VALUE, ...)"));
  if (values_.size() != 2) refuse(option, text, concat(call->name, " takes two values, not ", values_.size()));
  if (!is_linear && as_double(values_[0]) > as_double(values_[1]))
    refuse(option, text, "its first value is the lower one");
  if (is_log && as_double(values_[0]) <= 0) refuse(option, text, "the logarithm needs values above 0");
  kind_ = is_linear ? Kind::kLinear : is_log ? Kind::kLogUniform : Kind::kUniform;
}

EnvOptionValue EnvLaw::value(double progress, NumpyGenerator& random) const {
  if (kind_ == Kind::kConstant) return values_.front();
  if (kind_ == Kind::kChoice)
    return values_[static_cast<std::size_t>(random.integers(0, static_cast<std::int64_t>(values_.size())))];
  const double from = as_double(values_[0]), to = as_double(values_[1]);
  if (kind_ == Kind::kLinear) return as_type_of(values_[0], from + (to - from) * std::clamp(progress, 0.0, 1.0));
  if (kind_ == Kind::kLogUniform)
    return as_type_of(values_[0], std::clamp(std::exp(random.uniform(std::log(from), std::log(to))), from, to));
  if (const auto* low = std::get_if<std::int64_t>(&values_[0]))
    return random.integers(*low, std::get<std::int64_t>(values_[1]) + 1);
  return random.uniform(from, to);
}

void check_set_once(const EnvOptionTexts& texts) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (is_set_before(texts, i)) faults.push_back(set_twice(texts[i]));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

void check_options(const std::string& env, const std::vector<EnvOption>& options, const EnvOptionTexts& texts) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& [name, text] = texts[i];
    const auto option = std::ranges::find(options, name, &EnvOption::name);
    if (options.empty()) {
      faults.push_back(concat(name, "=", text, ": ", env, " has no options"));
    } else if (option == options.end()) {
      faults.push_back(concat(name, "=", text, ": ", env, " has no such option", nearest_name(name, options)));
    } else if (is_set_before(texts, i)) {
      faults.push_back(set_twice(texts[i]));
    } else {
      try {
        (void)EnvLaw(*option, text);
      } catch (const ConfigError& error) {
        faults.emplace_back(error.what());
      }
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

}  // namespace tandem::rl
