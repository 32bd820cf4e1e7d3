// app/cli/command.h: what the user asked the program to do.
//
// Plain values.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/launch/launch_options.h"
#include "tandem/app/simulate/scale_options.h"
#include "tandem/app/tune/tune_options.h"
#include "tandem/comm/world_flags.h"
#include "tandem/rl/policy/actor/actor_options.h"

namespace tandem::app {

/// How a result is printed.
enum class Output { kText, kJson };

/// The ranks of a training: those that a launcher starts, or else `count` of them that the command itself starts.
struct RanksAsked {
  std::optional<int> count = {};
  std::vector<std::string> arguments = {};  // of each of them: the command line without --ranks
  comm::WorldFlags world = {};              // how they exchange
};
struct TrainCommand {
  ConfigSources sources;
  RanksAsked ranks = {};
};
struct ResumeCommand {
  std::filesystem::path run;
  std::vector<Setting> flags;
  RanksAsked ranks = {};
};
template <>
struct Choices<rl::Acting> {
  static constexpr std::array kAll{Choice{rl::Acting::kMode, "mode"}, Choice{rl::Acting::kSample, "sample"}};
};

struct EvalCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  std::int64_t episodes = 100;
  std::int64_t seed = 0;
  rl::Acting acting = rl::Acting::kMode;
  std::vector<std::filesystem::path> plugins = {};
  Output output = Output::kText;
};
struct InspectCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  Output output = Output::kText;
};
/// Whether a table is shown again and again.
enum class Frames { kOne, kMany };
struct TopCommand {
  std::filesystem::path run;
  Frames frames = Frames::kMany;
};
struct PlotCommand {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path picture;
};
struct ExportCommand {
  std::filesystem::path source;  // a run folder, or a checkpoint
  std::filesystem::path policy;
  std::vector<std::filesystem::path> plugins = {};
  std::string name = {};  // of the policy, where the run has several
};
struct EnvsCommand {
  std::optional<std::string> name = {};
  std::vector<std::filesystem::path> plugins = {};
  Output output = Output::kText;
};
struct LaunchCommand {
  LaunchOptions options;
};
struct SimulateScaleCommand {
  ScaleOptions options;
  std::vector<std::string> arguments = {};  // of the ranks that it starts: this command's
  std::filesystem::path result = {};        // of a rank that it started: where to write; else empty
  Output output = Output::kText;
};
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

using Command =
    std::variant<TrainCommand, ResumeCommand, EvalCommand, InspectCommand, TopCommand, PlotCommand, ExportCommand,
                 EnvsCommand, LaunchCommand, SimulateScaleCommand, TuneCommand, VersionCommand, HelpCommand>;

}  // namespace tandem::app
