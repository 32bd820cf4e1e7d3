// `train` and `resume`. lead() decides on rank 0 between a new run and one that goes on; check() makes the same
// decision in the process that starts ranks, without creating or locking a folder. Changes to one must be made to the
// other.
#include <filesystem>
#include <utility>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/faults.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/app/commands/train_seeds.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/warm_start.h"
#include "tandem/base/error.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/world.h"
#include "tandem/device/device_set.h"

namespace tandem::app {
namespace {

constexpr const char* kRuns = "runs";

// A run that goes on: where it lies, and how its configuration is made of what it recorded and what is asked for now.
struct Resumed {
  std::filesystem::path path;
  ConfigSources sources;
  bool is_recorded = true;  // anew; without flags the record is true as it is, and its comments stay
};

Resumed resumed_by(const ResumeCommand& command) {
  return {command.run,
          {.flags = command.flags, .recorded = RunPaths{command.run}.config(), .is_resume = true},
          !command.flags.empty()};
}

Resumed resumed_by(const TrainCommand& command, const std::filesystem::path& path) {
  ConfigSources sources = command.sources;
  sources.recorded = RunPaths{path}.config();
  return {path, std::move(sources)};
}

std::optional<ExitCode> go_on(const Resumed& run, Leader& leader) {
  RunFolder folder = RunFolder::open(run.path);
  Configuration configuration =
      configure(run.sources, surroundings_of(leader.environments, leader.ranks.size(), leader.instructions));
  const std::optional<model::Checkpoint> checkpoint = checkpoint_to_resume(folder.paths(), configuration);
  if (leave_ended(folder.paths(), configuration.options, checkpoint, leader)) return ExitCode::kDone;
  if (run.is_recorded) folder.write_config(configuration.yaml);
  return train_in(folder, configuration, checkpoint, leader);
}

// Throws what go_on() on rank 0 of so many ranks would throw.
Survivors check(const Resumed& run, const rl::EnvRegistry& environments, int ranks) {
  const RunPaths paths = find_run(run.path);
  Configuration configuration = configure(run.sources, surroundings_of(environments, ranks));
  require_own_devices(device::parse_device_set(configuration.options.devices), ranks);
  (void)checkpoint_to_resume(paths, configuration);
  return configuration.options.survivors;
}

// Whether it is the run in the options' folder that is asked for.
bool goes_on(const TrainOptions& options) {
  if (options.resume == Resume::kMust && !options.run_dir)
    throw ConfigError("resume = must: name the folder of the run with --run-dir");
  if (!options.run_dir) return false;
  return options.resume == Resume::kMust || (options.resume == Resume::kAuto && holds_run(*options.run_dir));
}

std::optional<ExitCode> lead(const TrainCommand& command, Leader& leader) {
  const TrainOptions asked = asked_for(command.sources);
  if (goes_on(asked)) return go_on(resumed_by(command, *asked.run_dir), leader);
  Configuration configuration =
      configure(command.sources, surroundings_of(leader.environments, leader.ranks.size(), leader.instructions));
  const TrainOptions& options = configuration.options;
  check_warm_start(options, environments_of(leader.environments, options));
  const std::filesystem::path path =
      options.run_dir ? *options.run_dir
                      : new_run_path(kRuns, options.env, options.algo, std::chrono::system_clock::now());
  // Creating the folder takes its lock, which the local object holds until training ends.
  RunFolder folder = RunFolder::create(path, configuration.yaml);
  if (!folder.remark().empty()) configuration.notes.push_back(folder.remark());
  return train_in(folder, configuration, {}, leader);
}

// Throws what rank 0 of so many ranks would throw, before any of them is started.
Survivors check(const TrainCommand& command, const rl::EnvRegistry& environments, int ranks) {
  const TrainOptions asked = asked_for(command.sources);
  if (goes_on(asked)) return check(resumed_by(command, *asked.run_dir), environments, ranks);
  const Configuration configuration = configure(command.sources, surroundings_of(environments, ranks));
  require_own_devices(device::parse_device_set(configuration.options.devices), ranks);
  check_warm_start(configuration.options, environments_of(environments, configuration.options));
  if (asked.run_dir) require_free(*asked.run_dir);
  return configuration.options.survivors;
}

// Ranks of ranks would all meet under one launcher's variables.
void require_no_launcher(int count) {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.launcher == comm::Launcher::kSingleProcess) return;
  throw ConfigError(concat("--ranks ", count, ": this process is rank ", me.rank, " of ", me.world_size,
                           " already, by ", comm::name_of(me.launcher),
                           "; leave the flag out, or start the command without a launcher"));
}

// Refuses flags for worlds of several hosts: all ranks are on this one.
void require_words_for_one_host(const comm::WorldFlags& words) {
  const comm::WorldOptions options = comm::read_world_flags(words);
  if (options.hosts_by == comm::HostsBy::kRankList)
    throw ConfigError(concat("--hosts-by ", words.hosts_by, ": --ranks starts all ranks on this host; leave it out"));
}

// Is one of the ranks, or starts `asked.count` processes of this program on this machine and returns how they ended.
// Signals are passed on to them by the supervisor. Before that calls `check`, which says what so many ranks do when one
// dies and throws ConfigError for whatever else is wrong with the command: all faults come in one ConfigError, and no
// process was started then.
ExitCode run(const RanksAsked& asked, const std::vector<Setting>& flags, const OfProgram& program,
             const std::function<Survivors(int ranks)>& check, const Lead& lead) {
  if (asked.count == 1) require_no_launcher(1);
  if (asked.count.value_or(1) == 1) return run_on_all_ranks(asked.world, flags, program, lead);
  Faults faults;
  Survivors survivors = Survivors::kEnd;
  faults.collect([&] { require_no_launcher(*asked.count); });
  faults.collect([&] { require_words_for_one_host(asked.world); });
  faults.collect([&] { survivors = check(*asked.count); });
  faults.raise();

  LaunchOptions options{.ranks = *asked.count, .command = own_command()};
  // By its name, which messages of the launcher show.
  if (options.command.front() == "/proc/self/exe")
    options.command.front() = std::filesystem::read_symlink(options.command.front()).string();
  // A launcher that ends all ranks at the first death leaves no survivors.
  if (survivors != Survivors::kEnd) options.on_death = OnDeath::kContinue;
  options.command.insert(options.command.end(), asked.arguments.begin(), asked.arguments.end());
  return run_command(LaunchCommand{std::move(options)});
}

ExitCode train_one(const TrainCommand& command, const OfProgram& program) {
  return run(
      command.ranks, command.sources.flags, program,
      [&](int ranks) { return check(command, program.environments, ranks); },
      [&](Leader& leader) { return lead(command, leader); });
}

}  // namespace

ExitCode run_command(const TrainCommand& command, const rl::EnvRegistry& environments, const RunObserver& observer) {
  if (command.seeds == 1) return train_one(command, {environments, observer, command.clock_from});
  // The runs follow each other in this process, so each has a clock of its own: their times can be compared.
  return train_seeds(command, environments, [&](const TrainCommand& one) {
    return train_one(one, {environments, observer, seconds_since_process_start()});
  });
}

ExitCode run_command(const ResumeCommand& command, const rl::EnvRegistry& environments, const RunObserver& observer) {
  const Resumed resumed = resumed_by(command);
  return run(
      command.ranks, command.flags, {environments, observer, command.clock_from},
      [&](int ranks) { return check(resumed, environments, ranks); },
      [&](Leader& leader) { return go_on(resumed, leader); });
}

}  // namespace tandem::app
