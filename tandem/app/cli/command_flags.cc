#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "tandem/app/cli/flags.h"
#include "tandem/app/config/algorithm.h"
#include "tandem/app/video/video_file.h"
#include "tandem/base/text.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<OnDeath> = words_up_to<OnDeath::kReplace>("stop", "continue", "replace");

// The grace of a launch.
template <>
struct ValueFormat<std::chrono::milliseconds> {
  static constexpr double kLongest = 86'400;  // seconds: a day
  static std::optional<std::chrono::milliseconds> read(const std::string& text) {
    const std::optional<double> seconds = read_number(text);
    if (!seconds || *seconds < 0 || *seconds > kLongest) return std::nullopt;
    return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
  }
  static std::string write(std::chrono::milliseconds value) { return write_number(double(value.count()) / 1000); }
  static std::string kind() { return "seconds from 0 to " + write_number(kLongest); }
};

template <>
struct ValueFormat<Cost> {
  static std::optional<Cost> read(const std::string& text) { return read_cost(text); }
  static std::string write(const Cost& cost) { return cost.text(); }
  static std::string kind() { return "milliseconds, as 1 or 0.5, or pareto:MEAN:SHAPE with a shape above 1"; }
};

namespace {

// These limits catch slips of the pen; the system may allow fewer.
constexpr double kMostRanks = 1000, kMostRestarts = 1'000'000, kMostRounds = 1000;
constexpr double kMostStarted = 250;  // ranks that a host's shared memory can have

constexpr const char* kLaunchExample = R"(Example:
  tandem launch --ranks 4 -- ./my_program --its-flags
  tandem launch --ranks 2 --on-death replace -- python train.py
  tandem launch --ranks 4 --on-death replace -- tandem train --algo dd_ppo --env CartPole-v1 --survivors take_over

Each rank finds out who it is from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as under
torchrun; a C++ program calls tandem::comm::launcher_environment(). The store that the ranks meet in is the launcher's.

Every line that a rank prints begins with its rank. Ctrl-C is passed on; another one kills the ranks. SIGTERM, SIGHUP,
SIGUSR1 and SIGUSR2 are passed on too. Nothing outlives the launcher, however it ends, but daemons.
The exit code is that of the first rank that failed (128 and the number for a signal; 3 for one that ended with 0 before
it was done with the others, as a library's _exit() does), or 130 when ranks were stopped: a
rank that ends with 130 has not failed, is not started again, and the others are asked to end. A training that its
survivors completed has not failed. A rank that its survivors went on without, since it was silent, is killed, and so is
one that stays stopped (SIGSTOP) before they have let it in, or when all others have ended and some of them failed.
)";

constexpr const char* kScaleExample = R"(Example:
  tandem simulate-scale
  tandem simulate-scale --step pareto:1:1.5 --ranks 1,8,64 -o scale.png

Starts real ranks on this machine that exchange, watch each other and end rollouts as `tandem train --algo dd_ppo` does,
but sleep where that would step environments and learn. A cost is milliseconds, "1", or "pareto:1:1.5", drawn each time
from a Pareto distribution with that mean and shape.
)";

constexpr const char* kTuneExample = R"(Example:
  tandem tune --env CartPole-v1 --shards 2 -o tuned.yaml
  tandem train tuned.yaml --run-dir runs/pole
  tandem tune mine.yaml --vary devices,shards,minibatch --seconds 3

Short runs of the real training loop, in a temporary folder, take turns; each layout is judged by the median over the
rounds of its environment steps a second against the given layout's in the same round. After the first round only the
eight fastest and the given one go on. The file has all settings of the layout that was fastest.

What may vary:
)";
constexpr const char* kNotes =
    R"(Without --vary: those that leave what is learned as it is. A layout with other numbers may be fast and learn slowly:
compare its curve before use.

Ctrl-C ends it, and what was measured is shown (exit code 130). Keys of CONFIG that belong to one run of the program
(run_dir, resume, profile) are left out.
)";

// Returns the knobs of all algorithms, each word once.
std::vector<Knob> all_knobs() {
  const TrainOptions defaults;
  std::vector<Knob> all;
  for (const auto& algorithm : algorithms()) {
    for (Knob& knob : algorithm->knobs(defaults, {})) {
      if (std::ranges::count(all, knob.word, &Knob::word) == 0) all.push_back(std::move(knob));
    }
  }
  return all;
}

std::string tune_footer() {
  std::string text = kTuneExample;
  for (const Knob& knob : all_knobs()) {
    // Help starts in one column, after at least one space.
    text += align_left(concat("  ", knob.word, " "), 13) + knob.help + "\n";
  }
  return text + kNotes;
}

// Rising numbers keep rows of the report in order, and none comes twice.
bool rises(const std::vector<std::int64_t>& numbers) {
  return std::ranges::adjacent_find(numbers, std::greater_equal{}) == numbers.end();
}

}  // namespace

void add_video_flags(CLI::App& command, VideoOptions& options, FieldFlags& flags) {
  constexpr double kMostFps = 1000, kLeastSize = 64, kMostSize = 4096;
  flags.add(command, "--video", "FILE.gif|FILE.mp4|FOLDER/", options.path,
            "Records the first episodes: as a GIF, as an MP4 (needs ffmpeg), or as a folder of PNG files.");
  flags.add(command, "--video-episodes", "N", options.episodes, "Episodes that are recorded. [1]").at_least(1);
  flags.add(command, "--video-steps", "N", options.steps, "Steps of each that are recorded at most. [1000]")
      .at_least(1);
  flags
      .add(command, "--video-fps", "N", options.fps,
           "Steps that are shown in a second. [as the environment says, else 30]")
      .above(0)
      .at_most(kMostFps);
  flags.add(command, "--video-size", "N", options.size, "Pixels of the picture's longer side. [600]")
      .within(kLeastSize, kMostSize);
}

void check_video(const EvalCommand& command, const FieldFlags& flags, std::vector<std::string>& faults) {
  const VideoOptions& video = command.video;
  if (video.path.empty()) {
    for (const char* flag : {"--video-episodes", "--video-steps", "--video-fps", "--video-size"}) {
      if (!flags.text(flag).empty()) faults.push_back(flags.fault(flag, "has no effect without --video"));
    }
    return;
  }
  if (!is_video_path(video.path))
    faults.push_back(flags.fault("--video",
                                 "expected a name that ends with .gif or .mp4, or with a slash for a folder "
                                 "of PNG files, as in frames/"));
  if (video.episodes > command.episodes)
    faults.push_back(flags.fault("--video-episodes", concat("only ", command.episodes, " are played (--episodes)")));
  if (video.steps > kMostVideoSteps / video.episodes)
    faults.push_back(concat("--video-episodes ", video.episodes, " of --video-steps ", video.steps,
                            ": a video has at most ", kMostVideoSteps, " steps"));
}

void add_ranks_flag(CLI::App& command, int& ranks, const char* help, FieldFlags& flags) {
  flags.add(command, "--ranks", "N", ranks, help).within(1, kMostRanks);
}

void add_launch_flags(CLI::App& command, LaunchOptions& options, FieldFlags& flags) {
  add_ranks_flag(command, options.ranks, "Processes to start.", flags);
  flags.add(
      command, "--on-death", "stop|continue|replace", options.on_death,
      "When a rank fails: end the others, leave them, or start it again; all of them where the others cannot go on "
      "without it. [stop]");
  flags.add(command, "--grace", "SECONDS", options.grace,
            "How long ranks may take to end when asked to, before they are killed, and how long they may stay stopped "
            "(SIGSTOP) when all others have ended and some failed. [30]");
  flags.add(command, "--max-restarts", "N", options.max_restarts, "How often each rank is started again. [3]")
      .within(0, kMostRestarts);
  command.footer(kLaunchExample);
}

void check_launch(const LaunchOptions& options, const FieldFlags& flags, std::vector<std::string>& faults) {
  if (flags.text("--ranks").empty())
    faults.emplace_back("--ranks is not given: how many processes to start, as in --ranks 2");
  if (!flags.text("--max-restarts").empty() && options.on_death != OnDeath::kReplace)
    faults.push_back(flags.fault("--max-restarts", "has no effect without --on-death replace"));
  if (options.command.empty() || options.command.front().empty()) {
    faults.emplace_back(
        "there is no command to launch: put it behind --, as in tandem launch --ranks 2 -- ./my_program");
  }
}

// Upper limits keep the simulation finite and its numbers within the fields' types.
void add_scale_flags(CLI::App& command, ScaleOptions& options, FieldFlags& flags) {
  const auto add = [&](const char* flag, const char* takes, auto& field, const char* help) -> Option& {
    return flags.add(command, flag, takes, field, help);
  };
  SimulatedWork& work = options.work;
  add("--ranks", "N,N,...", options.ranks, "Numbers of ranks to start. [1,2,4,8,16,32,64]").within(1, kMostStarted);
  add("--steps", "N", work.steps, "Steps of a rank's rollout. [128]").within(1, 100'000);
  add("--step", "COST", work.step, "Of each step. [1]");
  add("--slow-rank", "FACTOR", work.slow_factor, "So many times slower are the steps of the last rank. [1]")
      .within(1, 1000);
  add("--minibatches", "N", work.minibatches, "Of an update. [16]").within(1, 10'000);
  add("--minibatch", "COST", work.minibatch, "Of learning from each. [10]");
  add("--parameters", "N", work.parameters, "Whose gradients are summed in each. [10000]").within(1, 1e9);
  add("--sync-frac", "SHARE", work.sync_frac, "As dd_ppo.sync_frac. [0.6]").within(0, 1);
  add("--least-frac", "SHARE", work.least_frac, "As dd_ppo.least_frac. [0.25]").within(0, 1);
  add("--updates", "N", options.updates, "Updates to measure. [5]").within(1, 100'000);
  add("--seed", "N", work.seed, "Decides what costs are drawn. [0]").within(0, 4e18);
  add("--model-ranks", "N,N,...", options.model_ranks, "Numbers of ranks to calculate besides. [128,512,2048,10000]")
      .within(1, 100'000);
  add("--latency", "MS", options.wire.latency_ms, "Of a message, in the model. [0.05]").within(0, 1000);
  add("--gigabits", "N", options.wire.gigabits_per_s, "A second, of the wire in the model. [10]")
      .within(0.001, 100'000);
  add("-o,--output", "FILE", options.picture, "A picture of the efficiencies: .png or .svg.");
  command.footer(kScaleExample);
}

void check_scale(const ScaleOptions& options, const FieldFlags& flags, std::vector<std::string>& faults) {
  if (options.ranks.empty() || !rises(options.ranks)) {
    faults.push_back(flags.fault("--ranks", "expected numbers of ranks that rise, as in 1,2,4"));
  } else if (options.ranks.front() != 1) {
    faults.emplace_back("--ranks: begin with 1, against which efficiency is measured");
  }
  if (!rises(options.model_ranks))
    faults.push_back(flags.fault("--model-ranks", "expected numbers of ranks that rise, as in 128,512"));
  const std::string picture = options.picture.value_or(".png").string();
  if (!picture.ends_with(".png") && !picture.ends_with(".svg"))
    faults.push_back(flags.fault("--output", "expected a name that ends in .png or .svg"));
}

void add_tune_flags(CLI::App& command, TuneOptions& options, FieldFlags& flags) {
  std::vector<std::string> words;
  for (const Knob& knob : all_knobs()) words.push_back(knob.word);
  flags
      .add(command, "--vary", "NAME,...", options.vary,
           "What layouts may differ in; see below. [what cannot change learning]")
      .one_of(std::move(words));
  flags.add(command, "--rounds", "N", options.rounds, "Runs of each layout, whose median counts. [5]")
      .within(1, kMostRounds);
  flags.add(command, "--seconds", "S", options.seconds, "That a run of the given layout takes, about. [1]")
      .above(0)
      .at_most(3600);
  flags.add(command, "-o,--output", "FILE", options.output,
            "The file to write, which must not be there yet. [tuned.yaml]");
  command.footer(tune_footer());
}

}  // namespace tandem::app
