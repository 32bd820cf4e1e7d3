// app/cli/flags.h: flags of a command line: those that fill the option table, those that fill fields, and the fields of
// the commands that have many: launch, simulate-scale, tune (command_flags.cc).
//
// Threads: single-thread. Ownership: commands and fields must outlive the flags, and they the parsing.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/cli/command_line.h"
#include "tandem/app/config/option_table.h"

namespace CLI {
class App;
}

namespace tandem::app {

/// Which options get a flag of their own.
/// All three read keys of the same option table, so a flag means the same in each command.
enum class FlagSet {
  kTrain,   // all that have one
  kResume,  // those that may change when a run goes on
  kTune,    // those of kTrain that are not of one call of the program; and --quiet
};

/// Not copyable: CLI11 holds pointers to the members that parsing fills.
class OptionFlags {
 public:
  /// Adds the flags, and --set key=value, to `command`; with kTrain also the footer of the help, which lists all keys.
  OptionFlags(CLI::App& command, FlagSet set);
  OptionFlags(const OptionFlags&) = delete;
  OptionFlags& operator=(const OptionFlags&) = delete;

  /// Returns the settings that were given, once the command line was parsed. Adds to `faults` a --set that has no key
  /// or no value.
  [[nodiscard]] std::vector<Setting> settings(std::vector<std::string>& faults) const;

 private:
  /// An option that has a flag, and its texts in the order of the command line.
  struct Given {
    std::string key;
    std::vector<std::string> values = {};  // one for each time that the flag was given
  };

  /// Adds one flag; `takes` stands in the help where a value stands. A switch that is off by default takes no value.
  void add(CLI::App& command, const Option& option, const std::string& takes);

  // std::map, since CLI11 holds addresses of the values
  std::map<std::string, Given> given_;  // by flag
  std::vector<std::string> sets_;
};

/// Flags that have a field each, into which their values go.
/// Values stay texts until assign() reads them, so that faults of all flags come in one message. The flags of several
/// commands may have one name: only those of the command that was chosen are given.
class FieldFlags {
 public:
  /// Adds a flag to `command`; returns it for its limits. `takes` stands in the help where a value stands; `flag` may
  /// have a short form in front: "-o,--output".
  template <typename Field>
  Option& add(CLI::App& command, const std::string& flag, const char* takes, Field& field, const char* help) {
    return add(command, flag, takes, std::make_unique<FieldOption<Field>>(flag.substr(flag.find("--")), field, help));
  }

  /// Gives each field the value of its flag, once the command line was parsed; a flag that was not given, or is at
  /// fault, leaves its field alone. Adds the faults of values to `faults`, in the order of the flags.
  void assign(std::vector<std::string>& faults);
  /// The text that was given, and empty when none was.
  [[nodiscard]] std::string text(const std::string& flag) const;
  /// "FLAG TEXT: PROBLEM"
  [[nodiscard]] std::string fault(const std::string& flag, const std::string& problem) const;

 private:
  struct Flag {
    std::unique_ptr<Option> option;
    std::string text = {};  // empty: not given
  };

  Option& add(CLI::App& command, const std::string& flag, const char* takes, std::unique_ptr<Option> option);

  std::deque<Flag> flags_;  // CLI11 holds addresses of the texts
};

// Each of the add_ functions adds flags to `command` that fill `options` once the command line was parsed; the check_
// functions, called afterwards, add what is wrong with several values together, or with a part of one, to `faults`.

void add_launch_flags(CLI::App& command, LaunchOptions& options, FieldFlags& flags);
/// With the command behind "--" in `options`.
void check_launch(const LaunchOptions& options, const FieldFlags& flags, std::vector<std::string>& faults);

void add_scale_flags(CLI::App& command, ScaleOptions& options, FieldFlags& flags);
void check_scale(const ScaleOptions& options, const FieldFlags& flags, std::vector<std::string>& faults);

/// The words of --vary come from the knobs of all registered algorithms, so the flags are made after those are
/// registered. Whether the run's own algorithm has such a knob is found out later.
void add_tune_flags(CLI::App& command, TuneOptions& options, FieldFlags& flags);

/// The flags of a video. Whether its folder is there, and ffmpeg, is found out by the command.
void add_video_flags(CLI::App& command, VideoOptions& options, FieldFlags& flags);
/// What can be told without looking at the disk: the kind of file, flags without a video, and more episodes than are
/// played.
void check_video(const EvalCommand& command, const FieldFlags& flags, std::vector<std::string>& faults);

/// Adds --ranks, a number of ranks that can be.
void add_ranks_flag(CLI::App& command, int& ranks, const char* help, FieldFlags& flags);

}  // namespace tandem::app
