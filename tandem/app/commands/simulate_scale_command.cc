// The program plays two roles. Started by a user, it launches itself once for each number of ranks, with --result, and
// reads the rates from that file; started with --result, it is one of the ranks, of which rank 0 writes the file.
#include <filesystem>
#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/simulated_rank.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/simulate/scale_model.h"
#include "tandem/app/simulate/scale_report.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// A folder that is gone afterwards, where ranks leave what they found.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-scale-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw RunError(concat("no folder can be made at ", name));
    folder_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "result.json"; }

 private:
  std::filesystem::path folder_;
};

// One of the ranks that the simulation started.
ExitCode be_rank(const SimulateScaleCommand& command) {
  comm::World world = comm::open_world(comm::launcher_environment(), {});
  const ScalePoint point = simulate_rank(world, command.options.work, command.options.updates);
  if (world.rank != 0) return ExitCode::kDone;
  JsonWriter json;
  json.begin_array();
  for (const double rate : point.samples_per_s) json.value(rate);
  json.end_array();
  write_file(command.result, json.text());
  return ExitCode::kDone;
}

// Blocks until the launch has ended. A launch that fails is a RunError: a point that is missing would mislead.
ScalePoint measure(const SimulateScaleCommand& command, std::int64_t ranks) {
  const Scratch scratch;
  LaunchOptions launch{.ranks = static_cast<int>(ranks),
                       .command = {std::filesystem::read_symlink("/proc/self/exe").string()}};
  launch.command.insert(launch.command.end(), command.arguments.begin(), command.arguments.end());
  launch.command.insert(launch.command.end(), {"--result", scratch.file().string()});
  const ExitCode code = run_launch({std::move(launch)});
  if (code != ExitCode::kDone)
    throw RunError(concat("the ranks of the simulation with ", ranks, " of them ended with ", static_cast<int>(code)));
  ScalePoint point{.ranks = ranks, .samples_per_s = {}};
  const JsonValue rates = read_json_file(scratch.file());
  for (const JsonValue& rate : rates.as_array()) point.samples_per_s.push_back(rate.as_double());
  return point;
}

ScalePoint modelled(const ScaleOptions& options, std::int64_t ranks) {
  ScalePoint point{.ranks = ranks, .samples_per_s = {}};
  for (const pipeline::Stragglers policy : kPolicies)
    point.samples_per_s.push_back(model_update(options.work, options.wire, ranks, policy).samples_per_s());
  return point;
}

}  // namespace

ExitCode run_simulate_scale(const SimulateScaleCommand& command) {
  if (!command.result.empty()) return be_rank(command);
  ScaleFindings findings{.options = command.options, .measured = {}, .modelled = {}};
  for (const std::int64_t ranks : command.options.ranks) {
    if (command.output == Output::kText) std::cerr << "starting " << counted(ranks, "rank") << "\n";
    findings.measured.push_back(measure(command, ranks));
  }
  for (const std::vector<std::int64_t>* numbers : {&command.options.ranks, &command.options.model_ranks}) {
    for (const std::int64_t ranks : *numbers) findings.modelled.push_back(modelled(command.options, ranks));
  }
  std::cout << (command.output == Output::kJson ? to_json(findings) + "\n" : to_text(findings));
  if (command.options.picture) write_chart(chart_of(findings), *command.options.picture);
  return ExitCode::kDone;
}

}  // namespace tandem::app
