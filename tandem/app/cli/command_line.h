// app/cli/command_line.h: what the user asked the program to do on the command line.
//
// Plain values.
//
// Values of flags are checked for their form only: whether a folder, an environment or a device exists is found out by
// the command (app/commands/commands.h).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/launch/supervisor.h"
#include "tandem/app/plot/run_picture.h"
#include "tandem/app/simulate/scale.h"
#include "tandem/app/video/film.h"
#include "tandem/comm/world_flags.h"
#include "tandem/rl/policy/policy_options.h"

namespace tandem::app {

/// How a result is printed.
enum class Output { kText, kJson };

/// The ranks of a training: those that a launcher starts, or else `count` of them that the command itself starts.
/// `count` is nothing without --ranks; with 1 the command trains in its own process. `arguments` is kept because each
/// started rank reads the command line anew.
struct RanksAsked {
  std::optional<int> count = {};
  std::vector<std::string> arguments = {};  // of each of them: the command line without --ranks
  comm::WorldFlags world = {};              // how they exchange
};
/// A new run, or the one in its run_dir when `resume` says so.
struct TrainCommand {
  ConfigSources sources;
  RanksAsked ranks = {};
  std::int64_t seeds = 1;  // runs, one after the other, that differ in their seed
  /// Where the run's clock starts (wall_s): seconds after the process started. Not 0 where a process makes one run
  /// after the other.
  double clock_from = 0;
};
/// `flags` may name options that a resume may change; others are refused when the record is read.
/// `run` is the folder of the run.
struct ResumeCommand {
  std::filesystem::path run;
  std::vector<Setting> flags;
  RanksAsked ranks = {};
  /// As of TrainCommand.
  double clock_from = 0;
};
template <>
inline constexpr std::array kChoices<rl::Acting>{Choice{rl::Acting::kMode, "mode"},
                                                 Choice{rl::Acting::kSample, "sample"}};

/// `code` takes the place of what the run recorded, which may have moved; so it does in ExportCommand.
struct EvalCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  std::int64_t episodes = 100;
  /// After which an episode is cut short.
  std::int64_t most_steps = 100'000;
  /// Decides the starts of the episodes.
  std::int64_t seed = 0;
  rl::Acting acting = rl::Acting::kMode;
  /// NAME=VALUE each, beside those of the run; of equal names these count.
  std::vector<std::string> env_options = {};
  NamedCode code = {};
  /// An empty path: none.
  VideoOptions video = {};
  Output output = Output::kText;
};
/// The manifest or the config.yaml in `source` decides which of the two it is.
/// A checkpoint or a run is shown as it lies there.
struct InspectCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  Output output = Output::kText;
};
/// Whether a table is shown again and again.
/// kMany ends with the run; without a terminal it is as kOne.
enum class Frames { kOne, kMany };
struct TopCommand {
  std::filesystem::path run;
  Frames frames = Frames::kMany;
};
template <>
inline constexpr auto kChoices<PlotAxis> = words_up_to<PlotAxis::kEpisodes>("steps", "time", "episodes");
/// The suffix of `picture` decides the format: .png or .svg.
struct PlotCommand {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path picture;
  PlotOptions options = {};
};
/// What is done with the file behind its writing: kCheck runs it beside the policy.
enum class AfterExport { kNothing, kCheck };
/// The suffix of `policy` decides what is written: .onnx, .h, .pt with the weights beside it, or .safetensors, the
/// weights alone.
struct ExportCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  std::filesystem::path policy;
  NamedCode code = {};
  std::string name = {};  // of the policy, where the run has several
  AfterExport after = AfterExport::kNothing;
};
/// Plays an environment and tells what is wrong with it.
struct CheckCommand {
  std::string env;
  std::int64_t steps = 2000;  // of each environment
  std::int64_t seed = 1;
  /// NAME=VALUE each.
  std::vector<std::string> env_options = {};
  /// As TrainOptions has them.
  std::vector<std::string> env_wrappers = {};
  std::vector<std::filesystem::path> plugins = {};
  std::optional<std::filesystem::path> python = {};
  Output output = Output::kText;
};
/// Without a name, all environments are listed.
struct EnvsCommand {
  std::optional<std::string> name = {};
  /// NAME=VALUE each, of the named one.
  std::vector<std::string> env_options = {};
  std::vector<std::filesystem::path> plugins = {};
  std::optional<std::filesystem::path> python = {};
  Output output = Output::kText;
};
/// Serves the environments of a training, which starts this program again with it.
struct EnvWorkerCommand {};
/// The program to launch is any program, with its arguments, in `options`.
struct LaunchCommand {
  LaunchOptions options;
};
/// The command starts this program again as its ranks; `result` tells the two apart.
struct SimulateScaleCommand {
  ScaleOptions options;
  std::vector<std::string> arguments = {};  // of the ranks that it starts: this command's
  std::filesystem::path result = {};        // of a rank that it started: where to write; else empty
  Output output = Output::kText;
};
/// The layouts that `tandem tune` is asked to try, and how.
struct TuneOptions {
  std::vector<std::string> vary = {};  // words of knobs (knob.h); empty: all that leave what is learned as it is
  int rounds = 5;                      // measured runs of a layout, after which its median counts
  double seconds = 1;                  // that a run of the given layout takes, about
  std::filesystem::path output = "tuned.yaml";
};
/// Faults of the training's flags are in `sources`, as for TrainCommand.
struct TuneCommand {
  ConfigSources sources;
  TuneOptions options = {};
  Output output = Output::kText;
};
struct VersionCommand {
  Output output = Output::kText;
};
/// --help: the text to print.
struct HelpCommand {
  std::string text;
};

/// One alternative for each command; run_program() visits it, so a new command does not compile before it has a
/// function there.
using Command = std::variant<TrainCommand, ResumeCommand, EvalCommand, InspectCommand, TopCommand, PlotCommand,
                             ExportCommand, EnvsCommand, CheckCommand, EnvWorkerCommand, LaunchCommand,
                             SimulateScaleCommand, TuneCommand, VersionCommand, HelpCommand>;

/// Reads the command line. --help and --version are results, too, and not exceptions: the caller prints them and ends
/// with code 0. Single-thread.
/// `arguments`: those behind the program's name. Throws ConfigError with all faults, unknown flags and commands with
/// the nearest that there is. The faults of a TrainCommand's flags are in it, to be reported with those of its files.
/// Nothing is looked up but whether a CONFIG file exists. CLI11 is private to the .cc files of this folder.
[[nodiscard]] Command read_command_line(std::span<const std::string> arguments);

}  // namespace tandem::app
