// app/tune/tuning.h: what several algorithms let `tandem tune` vary, the layouts of a run that it measures, how fast
// each was, and what is said of them.
//
// Threads: free functions on values. A knob is one option and the texts to try for it, with what another value does to
// learning; whether a combination of values is valid is not decided here (knobs.cc). Layouts are made before anything
// is measured (layout.cc). They are compared within a round, since the load of a machine drifts from one round to the
// next (measurement.cc). The table is for people and may change; the keys of the JSON are for programs
// (tune_report.cc).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/run/update_metrics.h"

namespace tandem::app {

/// 1, 2, 4, ... and `most` itself.
[[nodiscard]] std::vector<std::string> powers_up_to(std::int64_t most);
/// A half, where that is whole, twice and four times.
[[nodiscard]] std::vector<std::string> around(std::int64_t given);

/// Replicas; the strategies whose numbers are the same; shards; environments. `machine` says which devices and how many
/// cores there are.
[[nodiscard]] Knob devices_knob(const TrainOptions& given, const Machine& machine);
[[nodiscard]] Knob strategy_knob(const TrainOptions& given);
[[nodiscard]] Knob shards_knob(const Machine& machine);
[[nodiscard]] Knob num_envs_knob(const TrainOptions& given);

[[nodiscard]] const char* name_of(Learning learning);  // as the table has it

/// One option as a layout has it and the given configuration has not. Both are texts of the option table: "devices" and
/// "cpu:2".
struct LayoutValue {
  std::string key, text;
};

/// Empty: the given one. `learning` is the strongest effect that any of its values has.
struct Layout {
  std::vector<LayoutValue> values = {};
  Learning learning = Learning::kSameBits;
};
/// "devices cpu:2, shards 4", or "as given".
[[nodiscard]] std::string describe(const Layout& layout);

/// `given` first, then every combination of the values of `vary`, words of its algorithm's knobs, that has a shard for
/// each replica; whether its counts fit each other is configure()'s to say. `vary` empty: all that apply and are not
/// kOther. Throws ConfigError when one
/// of `vary` does not apply, or nothing is left to vary, saying what would work.
[[nodiscard]] std::vector<Layout> layouts_of(const TrainOptions& given, const std::vector<std::string>& vary,
                                             const Machine& machine);

/// The sources of `given`, with the layout's values over them as if they were flags. What they contradict is left out,
/// and the shards stay those of `given` unless the layout says otherwise.
[[nodiscard]] ConfigSources with_layout(ConfigSources sources, const Layout& layout, const TrainOptions& given);

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

/// `chosen` is an index of `layouts`.
struct TuneFindings {
  std::string work = {};  // "ppo on CartPole-v1, 8 environments x 32 steps, 2 shards on cpu:2"
  std::int64_t cores = 1;
  std::int64_t env_steps = 0;  // of a run of the given layout, those of its first update too
  std::int64_t rounds = 5;
  std::vector<Measured> layouts = {};      // the given one first; the table leaves those out that have no run
  std::optional<std::size_t> chosen = {};  // none: it was stopped before all was measured
  std::string output = {};                 // the file that was written; empty: none
};

/// With what to do next. `program`: how to call this program.
[[nodiscard]] std::string to_text(const TuneFindings& findings, const std::string& program);
/// One line, without its end.
[[nodiscard]] std::string to_json(const TuneFindings& findings);

/// The configuration of the chosen layout as a file for `tandem train`: `yaml`, of its Configuration, with a head that
/// says how it came about. Without a choice it is the given configuration.
[[nodiscard]] std::string to_config_file(const TuneFindings& findings, const std::string& yaml);

}  // namespace tandem::app
