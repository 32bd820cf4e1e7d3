#include <algorithm>
#include <cmath>

#include "tandem/app/config/value_format.h"
#include "tandem/app/simulate/scale.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::string_view kPareto = "pareto:";
constexpr double kLongest = 60'000;  // ms

bool is_duration(const std::optional<double>& ms) { return ms && *ms >= 0 && *ms <= kLongest; }

constexpr int kUpdates = 8;    // that are drawn
constexpr int kMoments = 200;  // at which time_optimal may end

// When each step of a rank ends, ms since the rollout's begin.
using Rollout = std::vector<double>;

std::vector<Rollout> draw_rollouts(const SimulatedWork& work, std::int64_t ranks, Philox& random) {
  std::vector<Rollout> rollouts(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < rollouts.size(); ++rank) {
    const double slowness = ranks > 1 && rank + 1 == rollouts.size() ? work.slow_factor : 1;
    double at = 0;
    for (int step = 0; step < work.steps; ++step) rollouts[rank].push_back(at += slowness * work.step.draw_ms(random));
  }
  return rollouts;
}

struct Ended {
  double samples = 0, at_ms = 0;
};

// All groups end behind the step that they are in at that moment, or with the least that they make.
Ended end_at(const std::vector<Rollout>& rollouts, double moment_ms, std::ptrdiff_t least) {
  Ended ended;
  for (const Rollout& steps : rollouts) {
    const auto made = std::max<std::ptrdiff_t>(std::ranges::lower_bound(steps, moment_ms) - steps.begin() + 1, least);
    const std::ptrdiff_t count = std::min(made, std::ssize(steps));
    ended.samples += static_cast<double>(count);
    ended.at_ms = std::max(ended.at_ms, steps[static_cast<std::size_t>(count - 1)]);
  }
  return ended;
}

// When each rank would have made all its steps, in order.
std::vector<double> sorted_ends(const std::vector<Rollout>& rollouts) {
  std::vector<double> ends;
  for (const Rollout& steps : rollouts) ends.push_back(steps.back());
  std::ranges::sort(ends);
  return ends;
}

// wait_all takes the last end, preempt the end of the rank that completes the share; time_optimal tries moments between
// the first and the last end.
Ended end_of(const std::vector<Rollout>& rollouts, const SimulatedWork& work, pipeline::Stragglers policy,
             double learn_ms) {
  const std::vector<double> ends = sorted_ends(rollouts);
  const auto least = static_cast<std::ptrdiff_t>(std::ceil(work.least_frac * work.steps));
  if (policy == pipeline::Stragglers::kWaitAll) return end_at(rollouts, ends.back(), least);
  if (policy == pipeline::Stragglers::kPreempt) {
    const auto through = static_cast<std::size_t>(std::ceil(work.sync_frac * static_cast<double>(ends.size())));
    return end_at(rollouts, ends[std::clamp<std::size_t>(through, 1, ends.size()) - 1], least);
  }
  Ended best;
  for (int moment = 0; moment <= kMoments; ++moment) {
    const double at = ends.front() + (ends.back() - ends.front()) * moment / kMoments;
    const Ended ended = end_at(rollouts, at, least);
    // Compares two rates by cross multiplication: the first `best` has no samples and no time.
    if (ended.samples * (best.at_ms + learn_ms) > best.samples * (ended.at_ms + learn_ms)) best = ended;
  }
  return best;
}

// The slowest rank of each minibatch.
double draw_learning(const SimulatedWork& work, std::int64_t ranks, Philox& random) {
  // Equal costs have no slowest rank, so nothing needs to be drawn.
  if (!work.minibatch.shape) return work.minibatches * work.minibatch.mean_ms;
  double all = 0;
  for (int minibatch = 0; minibatch < work.minibatches; ++minibatch) {
    double slowest = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) slowest = std::max(slowest, work.minibatch.draw_ms(random));
    all += slowest;
  }
  return all;
}

double sum_ms(const SimulatedWork& work, const SimulatedWire& wire, std::int64_t ranks) {
  if (ranks == 1) return 0;
  const auto n = static_cast<double>(ranks);
  const double bits = 32.0 * static_cast<double>(work.parameters);
  return 2 * std::log2(n) * wire.latency_ms + 2 * (n - 1) / n * bits / (1e6 * wire.gigabits_per_s);
}

}  // namespace

double Cost::draw_ms(Philox& random) const {
  if (!shape) return mean_ms;
  // Inverts the distribution function; the least value is chosen so that the mean comes out as asked.
  const double least = mean_ms * (*shape - 1) / *shape;
  return least * std::pow(1 - random.uniform_double(), -1 / *shape);
}

std::string Cost::text() const {
  return shape ? concat(kPareto, write_number(mean_ms), ":", write_number(*shape)) : write_number(mean_ms);
}

std::optional<Cost> read_cost(std::string_view text) {
  if (!text.starts_with(kPareto)) {
    const std::optional<double> ms = read_number(text);
    return is_duration(ms) ? std::optional(Cost{.mean_ms = *ms}) : std::nullopt;
  }
  text.remove_prefix(kPareto.size());
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<double> ms = read_number(text.substr(0, colon)), shape = read_number(text.substr(colon + 1));
  if (!is_duration(ms) || !shape || *shape <= 1) return std::nullopt;
  return Cost{.mean_ms = *ms, .shape = shape};
}

// Means over kUpdates updates; the sums over the wire do not vary and are computed once.
ModelledUpdate model_update(const SimulatedWork& work, const SimulatedWire& wire, std::int64_t ranks,
                            pipeline::Stragglers policy) {
  Philox random(
      derive_seed(static_cast<std::uint64_t>(work.seed), SeedPurpose::kUser, 0));  // the same for all policies
  ModelledUpdate mean{.wire_ms = work.minibatches * sum_ms(work, wire, ranks)};
  for (int update = 0; update < kUpdates; ++update) {
    const std::vector<Rollout> rollouts = draw_rollouts(work, ranks, random);
    const double learn_ms = draw_learning(work, ranks, random);
    const Ended ended = end_of(rollouts, work, policy, learn_ms + mean.wire_ms);
    mean.samples += ended.samples / kUpdates;
    mean.rollout_ms += ended.at_ms / kUpdates;
    mean.learn_ms += learn_ms / kUpdates;
  }
  return mean;
}

}  // namespace tandem::app
