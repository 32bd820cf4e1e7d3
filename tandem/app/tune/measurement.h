// app/tune/measurement.h: how fast layouts were, and which of them to take.
//
// Threads: free functions on values.
//
// Layouts are compared within a round, since the load of a machine drifts from one round to the next.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/app/run/update_metrics.h"
#include "tandem/app/tune/layout.h"

namespace tandem::app {

/// One run. The first update, in which memory is first touched, is not measured, nor is what comes behind the last.
struct RunSample {
  double env_steps_per_s = 0;
  double seconds = 0;  // that were measured
  // Shares of that time. Of PPO, of its slowest replica; sync, a part of learn, is waiting for others' gradients. Of
  // runs that sample and learn at the same time: how long the rollout workers and the learner were busy, and sync is 0.
  double sample = 0, learn = 0, sync = 0;
  std::string state_sha256 = {};
};
/// Makes a sample, without its hash, of the updates of a run, of which there are at least two.
[[nodiscard]] RunSample sample_of(std::span<const UpdateMetrics> updates);

/// A layout and its runs, by round. A layout that was slow in the first round has no others. Index r of `runs` is round
/// r.
struct Measured {
  Layout layout;
  std::vector<RunSample> runs = {};
};

/// Over the runs of a layout, at least one; shares are medians too. `lowest` and `highest` are the extremes of its
/// runs.
struct Rating {
  double median = 0, lowest = 0, highest = 0;  // env steps a second
  double times = 1;                            // median over the rounds of its speed by that of the given in the same
  double sample = 0, learn = 0, sync = 0;
};
/// `given` holds the runs of the given layout in the same rounds; `measured` needs at least one run.
[[nodiscard]] Rating rate(const Measured& measured, const Measured& given);

/// A layout that is faster by no more than this is taken for noise.
inline constexpr double kNoise = 0.03;

/// Which of `all`, whose first is the given layout, go on to the rounds behind the first: the given one and the `most`
/// fastest others, in their order.
[[nodiscard]] std::vector<std::size_t> finalists(std::span<const Measured> all, std::size_t most);

/// Which to take: of those with as many runs as the given layout the fastest, if it is faster than the given one by
/// more than noise; else 0, the given one. Of those within noise of the fastest, that which changes least: first what
/// is learned, then the number of options.
[[nodiscard]] std::size_t choose(std::span<const Measured> all);

/// Layouts that must learn the same bits and ended in another state than the given one. Runs of a layout must have made
/// the same steps. Empty: the promise held, or the given layout's own runs differ, as with an environment that seeds
/// itself.
[[nodiscard]] std::vector<std::size_t> broken_promises(std::span<const Measured> all);

}  // namespace tandem::app
