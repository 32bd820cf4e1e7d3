#include "tandem/app/run/update_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "tandem/app/run/quantity_text.h"
#include "tandem/base/input_file.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// All other keys of a line belong to the record of figures.
constexpr std::array<std::string_view, 7> kOwnFields{
    "updates", "env_steps", "wall_s", "env_steps_per_s", "episode_return_mean", "episode_length_mean", "episodes"};
constexpr std::string_view kPolicy = "policy/", kEnv = "env/";

// JSON does not tell 5 from 5.0, so a whole number comes back as an integer. It is written as the same text again.
MetricValue figure_of(const JsonValue& value) {
  if (value.is_null()) return nullptr;
  if (value.is_string()) return value.as_string();
  if (value.is_integer()) return value.as_int64();
  return value.as_double();
}

}  // namespace

Record to_record(const UpdateMetrics& metrics) {
  Record record;
  record.add("updates", metrics.updates).add("env_steps", metrics.env_steps);
  record.add("wall_s", metrics.wall_s).add("env_steps_per_s", metrics.env_steps_per_s);
  record.add("episode_return_mean", metrics.episode_return_mean);
  record.add("episode_length_mean", metrics.episode_length_mean);
  record.add("episodes", metrics.episodes);
  for (const auto& [name, value] : metrics.figures.fields()) record.add(name, value);
  return record;
}

JsonValue read_last_line(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return JsonValue(nullptr);
  const std::optional<std::string> line = last_line(file);
  return !line || line->empty() ? JsonValue(nullptr) : read_json(*line);
}

std::optional<std::int64_t> last_update(const std::filesystem::path& file) {
  const JsonValue line = read_last_line(file);
  if (line.is_null()) return std::nullopt;
  return line.at("updates").as_int64();
}

// Records compare names one by one, so their number is bounded.
UpdateMetrics from_line(const JsonValue& line) {
  constexpr std::size_t kMostFields = 10'000;
  if (line.as_object().size() > kMostFields)
    throw DataError(
        concat("a line of metrics with ", line.as_object().size(), " fields; at most ", kMostFields, " are read"));
  UpdateMetrics metrics{.updates = line.at("updates").as_int64(),
                        .env_steps = line.at("env_steps").as_int64(),
                        .wall_s = number(line, "wall_s"),
                        .env_steps_per_s = number(line, "env_steps_per_s"),
                        .episode_return_mean = optional_number(line, "episode_return_mean"),
                        .episode_length_mean = optional_number(line, "episode_length_mean"),
                        .episodes = line.at("episodes").as_int64()};
  for (const auto& [name, value] : line.as_object()) {
    if (std::ranges::find(kOwnFields, name) == kOwnFields.end()) metrics.figures.add(name, figure_of(value));
  }
  return metrics;
}

std::string first_policy(const Record& figures) {
  for (const auto& [name, value] : figures.fields()) {
    if (name.starts_with(kPolicy)) return name.substr(kPolicy.size(), name.rfind('/') - kPolicy.size());
  }
  return "";
}

std::vector<PolicyReturn> opposed_returns(const std::optional<double>& sum, const Record& figures) {
  constexpr std::string_view kReturn = "/episode_return_mean";
  constexpr double kRounding = 1e-9;  // of sums of rewards that are not whole numbers
  std::vector<PolicyReturn> returns;
  double largest = 0;
  for (const auto& [name, value] : figures.fields()) {
    if (!name.starts_with(kPolicy) || !name.ends_with(kReturn)) continue;
    const std::optional<double> mean = number_of(value);
    if (!mean) return {};
    returns.push_back({name.substr(kPolicy.size(), name.size() - kPolicy.size() - kReturn.size()), *mean});
    largest = std::max(largest, std::abs(*mean));
  }
  const bool is_opposed = sum && returns.size() > 1 && std::abs(*sum) <= kRounding * (1 + largest);
  return is_opposed ? returns : std::vector<PolicyReturn>{};
}

std::string return_text(const UpdateMetrics& metrics, const char* unknown) {
  const std::vector<PolicyReturn> opposed = opposed_returns(metrics.episode_return_mean, metrics.figures);
  if (!opposed.empty())
    return joined(opposed, [](const PolicyReturn& its) { return concat(its.policy, " ", value_text(its.mean)); });
  return metrics.episode_return_mean ? value_text(*metrics.episode_return_mean) : unknown;
}

std::vector<MetricText> env_metrics(const Record& figures, std::size_t most) {
  std::vector<MetricText> metrics;
  for (const auto& [name, value] : figures.fields()) {
    if (metrics.size() == most) break;
    if (!name.starts_with(kEnv)) continue;
    const std::optional<double> known = number_of(value);
    metrics.push_back({.name = name.substr(kEnv.size()), .value = known ? value_text(*known) : "-"});
  }
  return metrics;
}

std::optional<UpdateMetrics> read_last(const std::filesystem::path& file, std::int64_t updates) {
  const JsonValue line = read_last_line(file);
  if (line.is_null() || line.at("updates").as_int64() != updates) return std::nullopt;
  return from_line(line);
}

}  // namespace tandem::app
