#include "tandem/app/plot/run_picture.h"

#include <algorithm>
#include <set>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kXLabel = "environment steps";
constexpr const char* kYLabel = "mean return of the last 100 episodes";

Curve curve_of(const RunPaths& paths, std::string label) {
  std::error_code ignored;
  if (!std::filesystem::exists(paths.metrics(), ignored)) return {std::move(label), {}};
  return {std::move(label), read_points(paths.metrics(), "env_steps", "episode_return_mean")};
}

// "Solved after 41.2k steps", once a summary says so. A summary that is missing or broken only shortens the subtitle.
std::string outcome(const RunPaths& paths) {
  std::error_code ignored;
  if (!std::filesystem::exists(paths.summary(), ignored)) return "";
  try {
    const JsonValue summary = read_json_file(paths.summary());
    std::string text;
    if (const JsonValue* solved = summary.find("solved_at_env_steps"); solved != nullptr && solved->is_number()) {
      text += concat(". Solved after ", count_text(solved->as_double()), " steps");
    }
    // The clock of a resumed run tells of its last part alone.
    if (const JsonValue* resumed = summary.find("resumed"); resumed == nullptr || resumed->as_string() != "no")
      return text;
    return text + concat(". Took ", duration_text(summary.at("wall_s").as_double()), " at ",
                         count_text(summary.at("env_steps_per_s").as_double()), " steps/s");
  } catch (const JsonError&) {
    return "";  // a picture of what is there, not a check of the summary
  }
}

std::string subtitle_of(const TrainOptions& options, const RunPaths& paths) {
  return concat(options.algo, ", seed ", options.seed, ", ", counted(options.num_envs, "environment"), ", ",
                options.devices, outcome(paths));
}

// By what the runs are told apart.
std::vector<std::string> labels_of(const std::vector<PlottedRun>& runs, const std::vector<TrainOptions>& options) {
  std::set<std::string> tasks;
  std::set<std::int64_t> seeds;
  for (const TrainOptions& run : options) {
    tasks.insert(concat(run.env, " ", run.algo));
    seeds.insert(run.seed);
  }
  const bool by_seed = tasks.size() == 1 && seeds.size() == runs.size();
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::filesystem::path folder = runs[i].paths.folder.lexically_normal();
    // A path with a slash at its end has no file name, so its parent gives the folder's name.
    const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    labels.push_back(by_seed ? concat("seed ", options[i].seed) : name);
  }
  return labels;
}

template <typename Value, typename Of>
bool all_equal(const std::vector<Value>& values, Of of) {
  return std::all_of(values.begin(), values.end(), [&](const Value& value) { return of(value) == of(values.front()); });
}

}  // namespace

Chart chart_of(const std::vector<PlottedRun>& runs) {
  TANDEM_CHECK(!runs.empty(), "there is no run to draw");
  std::vector<TrainOptions> options;
  for (const PlottedRun& run : runs) options.push_back(read_recorded(run.paths.config()));
  Chart chart{.title = options.front().env, .subtitle = "", .x_label = kXLabel, .y_label = kYLabel};
  if (!all_equal(options, [](const TrainOptions& o) { return o.env; })) chart.title = concat(runs.size(), " runs");
  chart.subtitle = runs.size() == 1
                       ? subtitle_of(options.front(), runs.front().paths)
                       : concat(counted(static_cast<std::int64_t>(runs.size()), "run"), " of ", options.front().algo);
  if (all_equal(runs, [](const PlottedRun& run) { return run.threshold; })) chart.threshold = runs.front().threshold;
  const std::vector<std::string> labels = labels_of(runs, options);
  for (std::size_t i = 0; i < runs.size(); ++i) chart.curves.push_back(curve_of(runs[i].paths, labels[i]));
  return chart;
}

void draw_run(const RunPaths& paths, std::optional<double> threshold) {
  write_chart(chart_of({{paths, threshold}}), paths.curve());
}

}  // namespace tandem::app
