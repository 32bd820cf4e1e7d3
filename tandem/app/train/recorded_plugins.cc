#include "tandem/app/train/recorded_plugins.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "tandem/app/run/program_name.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/digest/sha256.h"
#include "tandem/base/error.h"
#include "tandem/base/file_owner.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {
namespace {

// O_NONBLOCK: a fifo in the place of the file is not waited for.
std::string sha256_of(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  Sha256 hash;
  std::array<std::byte, 65536> piece;
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0) return "";
    if (count == 0) return hash.hex();
    hash.update(std::span(piece).first(static_cast<std::size_t>(count)));
  }
}

// A word of a shell's command line.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Why the plugin of this number must be named by the user; empty where nothing is against it.
std::string objection(const RecordOfRun& record, std::size_t number) {
  const std::filesystem::path& plugin = record.options.plugins[number];
  std::error_code error;
  if (!std::filesystem::exists(plugin, error)) return "it does not exist";
  const std::vector<std::string>& recorded = record.options.plugin_sha256;
  if (recorded.size() != record.options.plugins.size()) return "the run has not recorded its SHA-256";
  if (const std::string now = sha256_of(plugin); now != recorded[number])
    return concat("it is not the file that the run recorded: its SHA-256 is ", now.empty() ? "unknown" : now,
                  ", and that was ", recorded[number]);
  return who_else_replaces(plugin);
}

// How others may change the record itself.
std::string who_else_records(const RecordOfRun& record) {
  std::string who = who_else_writes(record.file);
  return who.empty() ? who_else_writes(std::filesystem::absolute(record.file).parent_path()) : who;
}

}  // namespace

std::vector<std::string> sha256_of_plugins(const TrainOptions& options) {
  std::vector<std::string> all;
  for (const std::filesystem::path& plugin : options.plugins) all.push_back(sha256_of(plugin));
  return all;
}

RecordOfRun record_of(const model::Checkpoint& checkpoint, const TrainOptions& options, std::string_view command,
                      const std::filesystem::path& source) {
  return {.options = options,
          .file = checkpoint.folder() / model::kManifestFile,
          .command = {program_name(), std::string(command), source.string()}};
}

void require_own_plugins(const RecordOfRun& record) {
  const std::vector<std::filesystem::path>& plugins = record.options.plugins;
  if (plugins.empty()) return;
  const std::string of_record = who_else_records(record);
  std::string command = joined(record.command, quoted, " ");
  for (const std::filesystem::path& plugin : plugins) command += concat(" --plugin ", quoted(plugin.string()));
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    const std::string why = of_record.empty() ? objection(record, i) : of_record;
    if (why.empty()) continue;
    faults.push_back(concat("the plugin ", plugins[i].string(), " is named by ", record.file.string(),
                            " alone and was not loaded: ", why,
                            ". A plugin is code that runs with your rights. If you ",
                            "trust it, name it yourself, beside your other flags: ", command));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

void require_own_python(const RecordOfRun& record) {
  if (!rl::is_python_env(record.options.env)) return;
  std::filesystem::path python = record.options.python.value_or("python3");
  std::string why = who_else_records(record);
  if (why.empty() && record.options.python) {
    std::error_code error;
    why =
        std::filesystem::exists(python, error) ? who_else_replaces(python) : concat(python.string(), " does not exist");
  }
  if (why.empty()) {
    const std::string of_folder = who_else_replaces(".");
    if (!of_folder.empty()) why = concat("Python finds modules in the current folder, too, and ", of_folder);
  }
  if (why.empty()) return;
  throw ConfigError(
      concat("the environment ", record.options.env, " is named by ", record.file.string(),
             " alone and no Python was started for it: ", why,
             ". It is code that runs with your rights. If you trust it, name the Python yourself, beside ",
             "your other flags: ", joined(record.command, quoted, " "), " --python ", quoted(python.string())));
}

rl::EnvRegistry environments_of_record(const rl::EnvRegistry& environments, const RecordOfRun& record,
                                       const NamedCode& named) {
  TrainOptions options = record.options;
  if (named.plugins.empty())
    require_own_plugins(record);
  else
    options.plugins = named.plugins;
  if (named.python)
    options.python = named.python;
  else
    require_own_python(record);
  return environments_of(environments, options);
}

std::optional<double> threshold_of_record(const rl::EnvRegistry& environments, const RecordOfRun& record) {
  if (rl::is_python_env(record.options.env)) return std::nullopt;
  try {
    require_own_plugins(record);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return threshold_of(environments, record.options);
}

}  // namespace tandem::app
