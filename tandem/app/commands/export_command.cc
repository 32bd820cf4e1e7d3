#include <algorithm>
#include <array>
#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/export/export_check.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/export/header_export.h"
#include "tandem/rl/policy/export/onnx_export.h"
#include "tandem/rl/policy/policy_export.h"

namespace tandem::app {
namespace {

constexpr std::string_view kScript = ".pt", kWeights = ".safetensors", kOnnx = ".onnx", kHeader = ".h";
constexpr std::array kSuffixes{kOnnx, kHeader, kScript, kWeights};

// Observations that an exported file is tried with.
constexpr std::int64_t kCheckedRows = 1000;

// Names are checked before the checkpoint is read, which may take long.
void require_output(const ExportCommand& command) {
  const std::string suffix = command.policy.extension().string();
  if (std::ranges::find(kSuffixes, suffix) == kSuffixes.end())
    throw ConfigError(concat("--output ", command.policy.string(), ": the name must end in ", joined(kSuffixes)));
  if (suffix == kWeights && command.after == AfterExport::kCheck)
    throw ConfigError(concat("--check runs the exported policy, and ", command.policy.string(),
                             " has weights alone; leave --check out, or export .onnx, .h or .pt"));
  const std::filesystem::path folder = command.policy.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw ConfigError(concat("--output ", command.policy.string(), ": there is no folder ", folder.string()));
}

// Where the policy comes from, for the file's own facts.
std::vector<std::pair<std::string, std::string>> facts_of(const model::Checkpoint& checkpoint,
                                                          const TrainOptions& options, const std::string& policy) {
  std::vector<std::pair<std::string, std::string>> facts{
      {"algorithm", options.algo}, {"run", checkpoint.folder().string()}, {"updates", concat(checkpoint.updates())}};
  if (!policy.empty()) facts.emplace_back("policy", policy);
  return facts;
}

// TorchScript is deprecated upstream, so the weights always come in a file of their own beside it.
void write(const std::filesystem::path& path, const TrainedPolicy& trained, const rl::ExportedPolicy& exported) {
  const std::string suffix = path.extension().string();
  if (suffix == kOnnx) {
    rl::export_onnx(exported, path);
  } else if (suffix == kHeader) {
    rl::export_header(exported, path);
  } else if (suffix == kScript) {
    rl::export_script(*trained.policy, &trained.normalizers, path);
  }
  if (suffix != kWeights) std::cout << printable(path.string()) << "\n";
  if (suffix == kOnnx || suffix == kHeader) return;
  const std::filesystem::path weights = std::filesystem::path(path).replace_extension(kWeights);
  rl::export_weights(*trained.policy, &trained.normalizers, weights);
  std::cout << printable(weights.string()) << "\n";
}

}  // namespace

// The file stays where a check fails: what the check says is about the file.
ExitCode run_command(const ExportCommand& command, const rl::EnvRegistry& environments) {
  require_output(command);
  const model::Checkpoint checkpoint = find_checkpoint(command.source);
  const TrainOptions options = options_of(checkpoint);
  const rl::EnvRegistry known =
      environments_of_record(environments, record_of(checkpoint, options, "export", command.source), command.code);
  const TrainedPolicy trained = load_policy(checkpoint, options, known, command.name);
  const rl::PolicyMap map = policies_of(options, known);
  const std::string name = map.size() == 1 ? map.front().name : command.name;
  write(command.policy, trained,
        {.policy = *trained.policy, .normalizers = &trained.normalizers, .facts = facts_of(checkpoint, options, name)});
  if (command.after == AfterExport::kNothing) return ExitCode::kDone;
  const RecordedRows rows = record_rows(checkpoint, options, known, name, kCheckedRows);
  std::cout << printable(check_export(command.policy, trained, rows, {.python = command.code.python})) << "\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app
