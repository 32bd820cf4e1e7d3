#include "tandem/app/plot/run_picture.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "tandem/app/plot/run_groups.h"
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

// "3 runs of ppo, 2 of impala".
std::string counts_text(const std::vector<const RecordedRun*>& runs) {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (const RecordedRun* run : runs) {
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

// The curves of a group, and what the subtitle says about them: the mean over its runs where all of them have values;
// each run alone where no part of the axis is common to them. A run without a value has no part in a mean.
struct GroupCurves {
  std::vector<Curve> curves;
  bool is_mean = false, is_cut = false, is_split = false;  // is_cut: some run goes on where others have ended
};
GroupCurves curves_of(const RunGroup& group, const std::string& metric, PlotAxis x, const std::string& label) {
  std::vector<std::vector<Point>> all;
  std::vector<const RecordedRun*> of;
  for (const RecordedRun* run : group) {
    std::vector<Point> points = points_of(run->run->paths, metric, x);
    if (points.empty()) continue;
    all.push_back(std::move(points));
    of.push_back(run);
  }
  const std::string share = all.size() == group.size() ? concat(all.size()) : concat(all.size(), " of ", group.size());
  const std::string its_label = group.size() > 1 ? concat(label, ", ", share, " seeds") : label;
  if (all.size() < 2) return {{{its_label, all.empty() ? std::vector<Point>{} : all.front()}}};
  if (Curve mean = mean_curve(all, its_label); !mean.points.empty()) {
    constexpr double kMuch = 0.05;
    double first = mean.points.front().x, last = mean.points.back().x;
    const double common = last - first;
    for (const std::vector<Point>& points : all) {
      first = std::min(first, points.front().x);
      last = std::max(last, points.back().x);
    }
    return {.curves = {std::move(mean)}, .is_mean = true, .is_cut = last - first - common > kMuch * (last - first)};
  }
  GroupCurves apart{.curves = {}, .is_split = true};
  for (std::size_t i = 0; i < all.size(); ++i)
    apart.curves.push_back({concat(label, ", seed ", of[i]->options.seed), std::move(all[i])});
  return apart;
}

// What there is to draw of a panel: a metric, under a name that the legend may show.
struct Drawn {
  const RunGroup* group = nullptr;
  std::string metric, label;
};

// "policy a" of "policy/a/episode_return_mean".
std::string label_of_policy(const std::string& metric) {
  constexpr std::string_view kPolicy = "policy/";
  return concat("policy ", metric.substr(kPolicy.size(), metric.rfind('/') - kPolicy.size()));
}

void add_curves(const std::vector<Drawn>& drawn, PlotAxis x, Chart& chart) {
  bool has_mean = false, is_cut = false, is_split = false;
  for (const Drawn& each : drawn) {
    GroupCurves its = curves_of(*each.group, each.metric, x, each.label);
    has_mean = has_mean || its.is_mean;
    is_cut = is_cut || its.is_cut;
    is_split = is_split || its.is_split;
    std::ranges::move(its.curves, std::back_inserter(chart.curves));
  }
  if (has_mean)
    chart.subtitle += concat("; means over seeds", is_cut ? ", where all have values" : "",
                             ", with the 95 % confidence interval of each mean");
  if (is_split) chart.subtitle += "; seeds that share no part of the axis are drawn one by one";
}

// Several policies whose returns sum to zero, as in a game, say nothing together.
bool is_always_zero(const RunGroup& group) {
  constexpr double kRounding = 1e-9;
  return std::ranges::all_of(group, [](const RecordedRun* run) {
    return std::ranges::all_of(points_of(run->run->paths, kReturn, PlotAxis::kSteps),
                               [](const Point& point) { return std::abs(point.y) <= kRounding; });
  });
}

Chart chart_of(const std::vector<const RecordedRun*>& runs, const PlotOptions& options) {
  const std::string metric = options.metric.value_or(kReturn);
  Chart chart{
      .title = runs.front()->options.env,
      .subtitle = runs.size() == 1 ? subtitle_of(runs.front()->options, runs.front()->run->paths) : counts_text(runs),
      .x_label = label_of(options.x),
      .y_label = label_of(metric),
      .half_window = options.half_window};
  const std::vector<RunGroup> groups = groups_of(runs);
  std::vector<Drawn> drawn;
  // The return of each policy, of one run or of seeds whose policies play against each other.
  if (!options.metric && groups.size() == 1 && (runs.size() == 1 || is_always_zero(groups.front()))) {
    for (const std::string& name : returns_of_policies(runs.front()->run->paths))
      drawn.push_back({&groups.front(), name, label_of_policy(name)});
  }
  if (!drawn.empty()) {
    chart.y_label = "mean return of each policy's last 100 episodes";
    add_curves(drawn, options.x, chart);
    return chart;
  }
  const auto threshold = [](const RecordedRun* run) { return run->run->threshold; };
  if ((metric == kReturn || metric == "eval_return_mean") &&
      std::ranges::all_of(runs, [&](const RecordedRun* run) { return threshold(run) == threshold(runs.front()); })) {
    chart.threshold = threshold(runs.front());
  }
  const std::vector<std::string> labels = labels_of(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) drawn.push_back({&groups[i], metric, labels[i]});
  add_curves(drawn, options.x, chart);
  return chart;
}

}  // namespace

std::vector<Chart> charts_of(const std::vector<PlottedRun>& runs, const PlotOptions& options) {
  TANDEM_CHECK(!runs.empty(), "there is no run to draw");
  std::vector<RecordedRun> recorded;
  for (const PlottedRun& run : runs) {
    if (options.metric) require_metric(run.paths, *options.metric);
    recorded.push_back(recorded_of(run));
  }
  // In the order in which environments come first.
  std::vector<std::vector<const RecordedRun*>> panels;
  for (const RecordedRun& run : recorded) {
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
