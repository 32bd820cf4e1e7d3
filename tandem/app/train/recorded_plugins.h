// app/train/recorded_plugins.h: plugins that nobody named but the record of a run: its config.yaml, or the manifest of
// a checkpoint.
//
// A plugin is code, which runs with the rights of whoever loads it, and a run folder may have come from anybody. So a
// recorded plugin is loaded without being named again only where it is the very file of the run (its SHA-256 is
// recorded), and where nobody but the user and root can have written the record or can change the file.
//
// So it is with environments in Python: a record names modules that are imported, and an interpreter.
//
// Threads: the main one; hashing blocks on the disk.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The SHA-256 of each of the options' plugins, as a run records them (TrainOptions::plugin_sha256). Empty for what is
/// no file or cannot be read: loading it says so.
[[nodiscard]] std::vector<std::string> sha256_of_plugins(const TrainOptions& options);

/// The options of a run, as `file` records them, and the words of the command behind which its user would name the
/// plugins.
struct RecordOfRun {
  const TrainOptions& options;
  std::filesystem::path file;
  std::vector<std::string> command;
};

/// The record in a checkpoint. `options`: as options_of(checkpoint) gave them; `command`: the name of the one that was
/// called; `source`: what it was given.
[[nodiscard]] RecordOfRun record_of(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                    std::string_view command, const std::filesystem::path& source);

/// Throws ConfigError unless all plugins of the record may be loaded unasked; the message has the reason and the
/// command that loads them anyway.
void require_own_plugins(const RecordOfRun& record);

/// The same of a Python environment, whose module and options, and whose interpreter, the record names. The interpreter
/// need not be the same file: systems replace theirs. The current folder, in which Python looks for modules, too, must
/// be one that nobody else may write.
void require_own_python(const RecordOfRun& record);

/// As environments_of() of the record's options: with the plugins and the Python that the command line names, or else,
/// when it names none, with those of the record. Throws ConfigError as these do.
[[nodiscard]] rl::EnvRegistry environments_of_record(const rl::EnvRegistry& environments, const RecordOfRun& record,
                                                     const NamedCode& named);

/// As threshold_of(); none, too, where a plugin would have to be named again, and for an environment of a Python, which
/// is not started for a line in a picture.
[[nodiscard]] std::optional<double> threshold_of_record(const rl::EnvRegistry& environments, const RecordOfRun& record);

}  // namespace tandem::app
