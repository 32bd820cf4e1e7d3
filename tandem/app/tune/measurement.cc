#include <algorithm>
#include <string_view>

#include "tandem/app/tune/tuning.h"
#include "tandem/base/check.h"

namespace tandem::app {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_of(const std::vector<RunSample>& runs, double RunSample::*figure) {
  std::vector<double> values;
  for (const RunSample& run : runs) values.push_back(run.*figure);
  return median(std::move(values));
}

// The mean of a figure of metrics.jsonl.
double mean_of(std::span<const UpdateMetrics> updates, std::string_view figure) {
  double sum = 0;
  for (const UpdateMetrics& update : updates) sum += update.figures.number(figure);
  return sum / static_cast<double>(updates.size());
}

}  // namespace

RunSample sample_of(std::span<const UpdateMetrics> updates) {
  TANDEM_CHECK(updates.size() >= 2, "a run of ", updates.size(), " updates");
  const UpdateMetrics &first = updates.front(), &last = updates.back();
  // The first update only marks the start of the clock.
  const std::span<const UpdateMetrics> measured = updates.subspan(1);
  RunSample sample;
  sample.seconds = last.wall_s - first.wall_s;
  sample.env_steps_per_s = static_cast<double>(last.env_steps - first.env_steps) / sample.seconds;
  // Only runs that sample and learn at the same time report it.
  if (last.figures.find("learner_idle") != nullptr) {
    sample.sample = 1 - mean_of(measured, "workers_idle");
    sample.learn = 1 - mean_of(measured, "learner_idle");
    return sample;
  }
  const double ms_an_update = 1e3 * sample.seconds / static_cast<double>(measured.size());
  sample.sample = mean_of(measured, "sample_ms") / ms_an_update;
  sample.learn = (mean_of(measured, "load_ms") + mean_of(measured, "learn_ms")) / ms_an_update;
  sample.sync = mean_of(measured, "sync_ms") / ms_an_update;
  return sample;
}

// Ratios are taken round by round and only then is their median taken, which leaves out a drift of the machine's speed.
Rating rate(const Measured& measured, const Measured& given) {
  Rating rating{.median = median_of(measured.runs, &RunSample::env_steps_per_s),
                .sample = median_of(measured.runs, &RunSample::sample),
                .learn = median_of(measured.runs, &RunSample::learn),
                .sync = median_of(measured.runs, &RunSample::sync)};
  const auto slower = [](const RunSample& a, const RunSample& b) { return a.env_steps_per_s < b.env_steps_per_s; };
  const auto [lowest, highest] = std::minmax_element(measured.runs.begin(), measured.runs.end(), slower);
  rating.lowest = lowest->env_steps_per_s;
  rating.highest = highest->env_steps_per_s;
  std::vector<double> times;
  for (std::size_t round = 0; round < std::min(measured.runs.size(), given.runs.size()); ++round)
    times.push_back(measured.runs[round].env_steps_per_s / given.runs[round].env_steps_per_s);
  if (!times.empty()) rating.times = median(std::move(times));
  return rating;
}

std::vector<std::size_t> finalists(std::span<const Measured> all, std::size_t most) {
  std::vector<std::size_t> order;
  for (std::size_t i = 1; i < all.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [all](std::size_t a, std::size_t b) {
    return all[a].runs.front().env_steps_per_s > all[b].runs.front().env_steps_per_s;
  });
  order.resize(std::min(order.size(), most));
  order.push_back(0);
  std::sort(order.begin(), order.end());
  return order;
}

// First finds the highest ratio to the given layout, then, among the layouts within noise of it, the one that changes
// least. The first of several equal ones wins.
std::size_t choose(std::span<const Measured> all) {
  const Measured& given = all.front();
  double fastest = 1 + kNoise;
  for (const Measured& measured : all) {
    if (measured.runs.size() >= given.runs.size()) fastest = std::max(fastest, rate(measured, given).times);
  }
  std::size_t best = 0;
  const auto changes_less = [](const Layout& a, const Layout& b) {
    return a.learning != b.learning ? a.learning < b.learning : a.values.size() < b.values.size();
  };
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].runs.size() < given.runs.size()) continue;
    const double times = rate(all[i], given).times;
    if (times <= 1 + kNoise || times < fastest / (1 + kNoise)) continue;
    if (best == 0 || changes_less(all[i].layout, all[best].layout)) best = i;
  }
  return best;
}

std::vector<std::size_t> broken_promises(std::span<const Measured> all) {
  const std::string& state = all.front().runs[0].state_sha256;
  const auto differs = [&state](const RunSample& run) { return run.state_sha256 != state; };
  std::vector<std::size_t> broken;
  // Without equal states of the given layout there is nothing to compare with.
  if (std::ranges::any_of(all.front().runs, differs)) return broken;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].layout.learning != Learning::kSameBits) continue;
    if (std::ranges::any_of(all[i].runs, differs)) broken.push_back(i);
  }
  return broken;
}

}  // namespace tandem::app
