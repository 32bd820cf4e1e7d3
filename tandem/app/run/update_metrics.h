// app/run/update_metrics.h: the numbers of one update: a line of metrics.jsonl, and what the progress shows.
//
// The same values go to metrics.jsonl, to TensorBoard, to summary.json and to the progress display, so that they cannot
// disagree. Reading a line back gives equal text when it is written again, which a resume relies on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/json_reader.h"
#include "tandem/metrics/sink.h"

namespace tandem::app {

/// A number of a file that a run writes, read back; nothing where there is null, as rates and means are before there is
/// anything to divide by. Throws as JsonValue::at() and as_double() do.
[[nodiscard]] inline std::optional<double> optional_number(const JsonValue& object, std::string_view key) {
  const JsonValue& value = object.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.as_double());
}

/// Reads a number; NaN where there is null: JSON has no NaN, and JsonWriter writes it as null.
[[nodiscard]] inline double number(const JsonValue& object, std::string_view key) {
  return optional_number(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

/// Figures that are not known stay nothing, and are written as null.
struct UpdateMetrics {
  std::int64_t updates = 0, env_steps = 0;  // since the run's start, resumes included
  double wall_s = 0;                        // since this process started; since the run began, of --seeds
  double env_steps_per_s = 0;               // of this process, its start-up left out
  // Means over the last 100 episodes, none before the first has ended. Returns of several agents are summed.
  std::optional<double> episode_return_mean = {}, episode_length_mean = {};
  std::int64_t episodes = 0;
  Record figures = {};  // what the run reports besides, under its own names (rl/algo/training_run.h)

  friend bool operator==(const UpdateMetrics&, const UpdateMetrics&) = default;
};

/// The fields under their names, the figures last.
[[nodiscard]] Record to_record(const UpdateMetrics& metrics);

/// Reads a line of metrics.jsonl. Throws DataError when to_record() cannot have written it.
[[nodiscard]] UpdateMetrics from_line(const JsonValue& line);

/// The name of the first policy that the figures name (policy/NAME/...); empty when a run has one policy without a
/// name.
[[nodiscard]] std::string first_policy(const Record& figures);

/// The mean return of a policy among the figures (policy/NAME/episode_return_mean).
struct PolicyReturn {
  std::string policy;
  double mean = 0;
};
/// The returns of several policies that sum to zero, as in a game in which one wins what others lose: the return, which
/// is their sum, says nothing then. Empty where the return is another or not known, or there is one policy.
[[nodiscard]] std::vector<PolicyReturn> opposed_returns(const std::optional<double>& sum, const Record& figures);
/// The return as people are shown it: "187.3", "player_0 0.1200, player_1 -0.1200" of opposed_returns(), `unknown`
/// before an episode has ended.
[[nodiscard]] std::string return_text(const UpdateMetrics& metrics, const char* unknown);

/// A metric of the environment's own (rl/env/env_metrics.h), as people are shown it; "-" where it is not known.
struct MetricText {
  std::string name, value;
};
/// The first metrics of the environment among the figures (env/NAME), at most so many. Their order is that of the
/// environment's spec, so its author decides which ones a narrow line shows.
[[nodiscard]] std::vector<MetricText> env_metrics(const Record& figures, std::size_t most);

/// The last line of a metrics.jsonl; null where there is none. Throws as read_last(). An unfinished last line, as a
/// killed process leaves it, does not count.
[[nodiscard]] JsonValue read_last_line(const std::filesystem::path& file);

/// The update of the last line of a metrics.jsonl; nothing where there is no line. Throws as read_last().
[[nodiscard]] std::optional<std::int64_t> last_update(const std::filesystem::path& file);

/// Reads the last line of a metrics.jsonl; nothing where there is no line, or one of another update. Throws
/// CheckpointError when the file cannot be read, DataError as from_line().
[[nodiscard]] std::optional<UpdateMetrics> read_last(const std::filesystem::path& file, std::int64_t updates);

}  // namespace tandem::app
