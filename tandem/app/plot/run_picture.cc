#include "tandem/app/plot/run_picture.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/update_metrics.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kReturn = "episode_return_mean";

const char* field_of(PlotAxis x) {
  return x == PlotAxis::kSteps ? "env_steps" : x == PlotAxis::kTime ? "wall_s" : "episodes";
}
const char* label_of(PlotAxis x) {
  return x == PlotAxis::kSteps ? "environment steps" : x == PlotAxis::kTime ? "seconds of training" : "episodes";
}

std::string label_of(const std::string& metric) {
  if (metric == kReturn) return "mean return of the last 100 episodes";
  if (metric == "eval_return_mean") return "mean return of an evaluation";
  return metric;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// The clock of each process starts at 0, so what came before a resume is added.
void go_on_counting(std::vector<Point>& points) {
  double before = 0, last = 0;
  for (Point& point : points) {
    const double mine = point.x;
    if (mine < last) before += last;
    last = mine;
    point.x += before;
  }
}

std::vector<Point> points_of(const RunPaths& paths, const std::string& metric, PlotAxis x) {
  if (!is_there(paths.metrics())) return {};
  std::vector<Point> points = read_points(paths.metrics(), field_of(x), metric);
  if (x == PlotAxis::kTime) go_on_counting(points);
  return points;
}

// The names of the numbers in the last line; empty where there is no line.
std::vector<std::string> metrics_of(const RunPaths& paths) {
  std::vector<std::string> names;
  if (!is_there(paths.metrics())) return names;
  const JsonValue line = read_last_line(paths.metrics());
  if (line.is_null()) return names;
  for (const auto& [name, value] : line.as_object()) names.push_back(name);
  return names;
}

// Some metrics are not in every line, as those of an evaluation.
void require_metric(const RunPaths& paths, const std::string& metric) {
  const std::vector<std::string> names = metrics_of(paths);
  if (names.empty() || std::ranges::find(names, metric) != names.end()) return;
  if (!points_of(paths, metric, PlotAxis::kSteps).empty()) return;
  throw ConfigError(
      concat("--metric ", metric, ": ", paths.metrics().string(), " has no such number; there are ", joined(names)));
}

// "policy/a/episode_return_mean" for each policy of a run that has several.
std::vector<std::string> returns_of_policies(const RunPaths& paths) {
  std::vector<std::string> returns;
  for (const std::string& name : metrics_of(paths)) {
    if (name.starts_with("policy/") && name.ends_with(std::string("/") + kReturn)) returns.push_back(name);
  }
  return returns.size() > 1 ? returns : std::vector<std::string>{};
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

// A run as it is drawn: with what it recorded.
struct Recorded {
  const PlottedRun* run = nullptr;
  TrainOptions options;
  std::map<std::string, std::string> settings = {};  // those that make it another run, but for the seed
};

Recorded recorded_of(const PlottedRun& run) {
  Recorded its{&run, read_recorded(run.paths.config())};
  const OptionTable table = option_table(its.options);
  for (const auto& option : table.options()) {
    const bool counts = option->lifetime() == Lifetime::kRun || option->lifetime() == Lifetime::kStage;
    if (counts && option->key() != "seed") its.settings[option->key()] = option->text();
  }
  return its;
}

std::string folder_name(const RunPaths& paths) {
  const std::filesystem::path folder = paths.folder.lexically_normal();
  // A path with a slash at its end has no file name, so its parent gives the folder's name.
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

// Runs that differ in their seeds alone; runs of one seed are apart, since one of them may be another's resume or copy.
using Group = std::vector<const Recorded*>;
std::vector<Group> groups_of(const std::vector<const Recorded*>& runs) {
  std::vector<Group> groups;
  for (const Recorded* run : runs) {
    const auto fits = [run](const Group& group) {
      return group.front()->settings == run->settings &&
             std::ranges::none_of(group, [run](const Recorded* one) { return one->options.seed == run->options.seed; });
    };
    const auto found = std::ranges::find_if(groups, fits);
    found != groups.end() ? found->push_back(run) : groups.push_back({run});
  }
  return groups;
}

// By the settings in which the groups differ, where they are few; else by the folders.
std::vector<std::string> labels_of(const std::vector<Group>& groups) {
  constexpr std::size_t kMostSettings = 2;
  std::vector<std::string> keys;
  for (const auto& setting : groups.front().front()->settings) {
    const bool differs = std::ranges::any_of(groups, [&setting](const Group& group) {
      const auto found = group.front()->settings.find(setting.first);
      return found == group.front()->settings.end() || found->second != setting.second;
    });
    if (differs) keys.push_back(setting.first);
  }
  const bool by_algorithm = std::ranges::find(keys, "algo") != keys.end();
  if (by_algorithm) keys = {"algo"};
  std::vector<std::string> labels;
  for (const Group& group : groups) {
    const Recorded& first = *group.front();
    if (keys.empty() || keys.size() > kMostSettings) {
      labels.push_back(folder_name(first.run->paths));
    } else if (by_algorithm) {
      labels.push_back(first.options.algo);
    } else {
      labels.push_back(joined(keys, [&](const std::string& key) {
        const auto found = first.settings.find(key);
        return concat(key, " ", found == first.settings.end() ? "-" : found->second);
      }));
    }
    if (group.size() > 1) labels.back() += concat(", ", group.size(), " seeds");
  }
  // Two groups of one label are told apart by their folders after all.
  if (std::set<std::string>(labels.begin(), labels.end()).size() < labels.size()) {
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = folder_name(groups[i].front()->run->paths);
  }
  return labels;
}

// "3 runs of ppo, 2 of impala".
std::string counts_text(const std::vector<const Recorded*>& runs) {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (const Recorded* run : runs) {
    const auto found = std::ranges::find(counts, run->options.algo, &std::pair<std::string, std::int64_t>::first);
    if (found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace_back(run->options.algo, 1);
    }
  }
  std::string text;
  for (const auto& [algo, count] : counts)
    text += text.empty() ? concat(counted(count, "run"), " of ", algo) : concat(", ", count, " of ", algo);
  return text;
}

Curve curve_of(const Group& group, const std::string& metric, PlotAxis x, const std::string& label) {
  std::vector<std::vector<Point>> curves;
  for (const Recorded* run : group) {
    std::vector<Point> points = points_of(run->run->paths, metric, x);
    if (!points.empty()) curves.push_back(std::move(points));
  }
  if (curves.size() > 1) {
    if (Curve mean = mean_curve(curves, label); !mean.points.empty()) return mean;
  }
  return {label, curves.empty() ? std::vector<Point>{} : curves.front()};
}

// One run of several policies, whose returns may sum to zero: a curve for each.
bool draw_policies(const Recorded& run, PlotAxis x, Chart& chart) {
  const std::vector<std::string> returns = returns_of_policies(run.run->paths);
  for (const std::string& name : returns) {
    const std::string policy = name.substr(7, name.size() - 7 - std::string(kReturn).size() - 1);
    chart.curves.push_back({"policy " + policy, points_of(run.run->paths, name, x)});
  }
  if (returns.empty()) return false;
  chart.y_label = "mean return of each policy's last 100 episodes";
  return true;
}

Chart chart_of(const std::vector<const Recorded*>& runs, const PlotOptions& options) {
  const std::string metric = options.metric.value_or(kReturn);
  Chart chart{
      .title = runs.front()->options.env,
      .subtitle = runs.size() == 1 ? subtitle_of(runs.front()->options, runs.front()->run->paths) : counts_text(runs),
      .x_label = label_of(options.x),
      .y_label = label_of(metric),
      .half_window = options.half_window};
  if (runs.size() == 1 && !options.metric && draw_policies(*runs.front(), options.x, chart)) return chart;
  const auto threshold = [](const Recorded* run) { return run->run->threshold; };
  if ((metric == kReturn || metric == "eval_return_mean") &&
      std::ranges::all_of(runs, [&](const Recorded* run) { return threshold(run) == threshold(runs.front()); })) {
    chart.threshold = threshold(runs.front());
  }
  const std::vector<Group> groups = groups_of(runs);
  const std::vector<std::string> labels = labels_of(groups);
  bool has_band = false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    chart.curves.push_back(curve_of(groups[i], metric, options.x, labels[i]));
    has_band = has_band || !chart.curves.back().band.empty();
  }
  if (has_band) chart.subtitle += "; means over seeds, with the 95 % confidence interval of each mean";
  return chart;
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<PlottedRun>& runs, const PlotOptions& options) {
  TANDEM_CHECK(!runs.empty(), "there is no run to draw");
  std::vector<Recorded> recorded;
  for (const PlottedRun& run : runs) {
    if (options.metric) require_metric(run.paths, *options.metric);
    recorded.push_back(recorded_of(run));
  }
  // In the order in which environments come first.
  std::vector<std::vector<const Recorded*>> panels;
  for (const Recorded& run : recorded) {
    const auto found = std::ranges::find_if(
        panels, [&run](const auto& panel) { return panel.front()->options.env == run.options.env; });
    found != panels.end() ? found->push_back(&run) : panels.push_back({&run});
  }
  std::vector<Chart> charts;
  for (const auto& panel : panels) charts.push_back(chart_of(panel, options));
  return charts;
}

void draw_run(const RunPaths& paths, std::optional<double> threshold) {
  write_charts(charts_of({{paths, threshold}}), paths.curve());
}

}  // namespace tandem::app
