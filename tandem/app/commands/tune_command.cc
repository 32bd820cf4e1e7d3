// The plan: check everything before the first run; list the layouts that fit; find out how many steps a run must have
// to take the asked time; measure all layouts in turns, and from the second round on the fastest only; write the
// settings of the fastest. Layouts take turns within a round, since the speed of a machine drifts over minutes.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numeric>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/faults.h"
#include "tandem/app/commands/progress_line.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/app/commands/scratch_folder.h"
#include "tandem/app/config/algorithm.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/train.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/concurrency/cores.h"
#include "tandem/device/device_set.h"

namespace tandem::app {
namespace {

constexpr std::size_t kFinalists = 8;  // besides the given layout, behind the first round

void require_new_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored)))
    throw ConfigError(concat("--output ", file.string(), ": there is such a file, which is never overwritten; name ",
                             "another with -o, or remove it"));
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored) || ::access(folder.c_str(), W_OK) != 0)
    throw ConfigError(concat("--output ", file.string(), ": no file can be written in ", folder.string()));
}

void require_one_process() {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.world_size > 1)
    throw ConfigError(concat("tandem tune measures one process, and this one is rank ", me.rank, " of ", me.world_size,
                             "; start it without a launcher"));
}

// Looks at flags alone: a CONFIG may have such keys, since it serves tandem train, too.
void require_no_call_options(const std::vector<Setting>& flags) {
  TrainOptions defaults;
  const OptionTable table = option_table(defaults);
  std::vector<std::string> faults;
  for (const Setting& flag : flags) {
    const Option* option = table.find(flag.key);
    if (option != nullptr && !may_be_given_to_tune(*option))
      faults.push_back(describe_fault(flag, "belongs to one training; tandem tune has runs of its own, leave it out"));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

// 1, 2, 4, ... replicas on the CPU's cores, or the first so many of the CUDA devices that were named.
Machine machine_for(const TrainOptions& given) {
  const std::vector<c10::Device> named = device::parse_device_set(given.devices);
  const auto replicas = static_cast<std::int64_t>(named.size());
  Machine machine{.cores = usable_cores().whole(), .devices = {{given.devices, replicas}}};
  const std::int64_t most = named.front().is_cuda() ? replicas : machine.cores;
  const auto add = [&](std::int64_t count) {
    if (count == replicas) return;
    const std::vector<c10::Device> devices =
        named.front().is_cuda() ? std::vector<c10::Device>(named.begin(), named.begin() + count)
                                : std::vector<c10::Device>(static_cast<std::size_t>(count), named.front());
    machine.devices.push_back({device::to_string(devices), count});
  };
  for (std::int64_t count = 1; count < most; count *= 2) add(count);
  add(most);
  return machine;
}

std::string work_text(const TrainOptions& given) {
  const std::string workers = algorithm_of(given).describe_workers(given);
  return concat(given.algo, " on ", given.env, ", ", given.num_envs, " environments x ", given.rollout_steps,
                " steps, ", counted(given.shards.value_or(1), "shard"), " on ", given.devices,
                workers.empty() ? "" : ", ", workers);
}

// The layouts that fit, each with its configuration.
struct Candidates {
  std::vector<Measured> measured;
  std::vector<Configuration> configurations;
};

Candidates candidates_of(const TuneCommand& command, const Configuration& given, const Surroundings& surroundings) {
  Candidates all;
  for (const Layout& layout : layouts_of(given.options, command.options.vary, machine_for(given.options))) {
    try {
      all.configurations.push_back(
          layout.values.empty() ? given : configure(with_layout(command.sources, layout, given.options), surroundings));
      all.measured.push_back({.layout = layout});
    } catch (const ConfigError&) {
      continue;  // its counts do not fit each other: it is no layout of this run
    }
  }
  if (all.measured.size() > 1) return all;
  throw ConfigError(
      "there is nothing to try: in every other layout the counts of environments, shards and minibatches do not fit "
      "each other; let more vary with --vary, or give counts with more divisors");
}

constexpr std::int64_t kLeastUpdates = 5;  // the first is not measured

// Keeps the numbers of every update instead of showing them.
class CollectedProgress final : public Progress {
 public:
  CollectedProgress() : Progress(Clock::duration::zero()) {}
  /// After the run.
  [[nodiscard]] const std::vector<UpdateMetrics>& updates() const { return updates_; }

 private:
  void show(const UpdateMetrics& metrics, const ProgressGoal&, double) override { updates_.push_back(metrics); }

  std::vector<UpdateMetrics> updates_;
};

// Environment steps of an update of such a run: all batches from one line of metrics to the next.
std::int64_t steps_of_update(const TrainOptions& options) {
  const BatchSize batch = algorithm_of(options).batch_size(options);
  return batch.env_steps * batch.per_update;
}

// Measures one configuration at a time: a run beside another would measure both wrong. Each run is a real training in a
// folder of its own, which the next one replaces, so its speed is that of `tandem train`. Its first update is not
// counted: it pays for memory and caches that later updates find. All members outlive it.
struct Tuning {
  const rl::EnvRegistry& environments;
  const StopSignals& signals;
  const ScratchFolder& folder;
  ProgressLine& shown;
  const bool is_quiet;

  void say(const std::string& line) const {
    if (!is_quiet) shown.show_now(line);
  }

  // Trains for `env_steps`, or a little more where updates do not end there; at least some updates. Nothing when a
  // signal ended it before. Throws as train().
  [[nodiscard]] std::optional<RunSample> run(const Configuration& configuration, std::int64_t env_steps) const {
    Configuration once = configuration;
    once.options.total_steps = std::max(env_steps, kLeastUpdates * steps_of_update(once.options));
    const std::filesystem::path path = folder.path() / "run";
    // RunFolder::create() refuses a folder that holds a run.
    std::filesystem::remove_all(path);
    RunFolder place = RunFolder::create(path, once.yaml);
    RunLog log(place.paths().log(), Severity::kInfo);
    CollectedProgress progress;
    // There are no ranks that could be asked to meet anew.
    const Trained trained = train(once, environments_of(environments, once.options), std::nullopt, learner::Ranks(),
                                  {.folder = place,
                                   .progress = progress,
                                   .log = log,
                                   .signals = signals,
                                   .end_process =
                                       [this](const HungThread& error) {
                                         folder.remove();
                                         end_process(error);
                                       }})
                                .value();
    if (trained.summary.end != RunEnd::kFinished) return std::nullopt;
    RunSample sample = sample_of(progress.updates());
    sample.state_sha256 = trained.summary.state_sha256;
    return sample;
  }

  // How many environment steps take about `seconds` > 0 that are measured, found out with runs that become longer.
  // Returns whole updates, at least five; nothing when a signal came.
  [[nodiscard]] std::optional<std::int64_t> steps_in(const Configuration& configuration, double seconds) const {
    const std::int64_t of_update = steps_of_update(configuration.options);
    std::int64_t env_steps = kLeastUpdates * of_update;
    while (true) {
      const std::optional<RunSample> sample = run(configuration, env_steps);
      if (!sample) return std::nullopt;
      const double updates = sample->env_steps_per_s * seconds / static_cast<double>(of_update);
      // Rounded up to whole updates, which is how runs end.
      const std::int64_t wanted = of_update * std::max(kLeastUpdates, static_cast<std::int64_t>(std::ceil(updates)));
      // A run of a quarter of the time is long enough to tell.
      if (wanted <= 4 * env_steps) return wanted;
      // At most eight times longer each time: a first rate from a very short run may be far too high.
      env_steps = std::min(wanted / 4, 8 * env_steps);
    }
  }

  // Measures all of them in turns, round by round; false when a signal came before all runs were made.
  [[nodiscard]] bool measure(Candidates& candidates, int rounds, std::int64_t env_steps) const {
    const std::size_t all = candidates.measured.size(), later = std::min(all, kFinalists + 1);
    const std::size_t total = all + later * static_cast<std::size_t>(rounds - 1);
    const Clock::time_point started = Clock::now();
    std::size_t made = 0;
    std::vector<std::size_t> turn(all);
    std::iota(turn.begin(), turn.end(), std::size_t{0});
    for (int round = 0; round < rounds; ++round) {
      if (round == 1) turn = finalists(candidates.measured, kFinalists);
      for (const std::size_t which : turn) {
        Measured& measured = candidates.measured[which];
        // Estimated from the mean of the runs so far.
        const double left =
            made == 0 ? 0 : seconds_since(started) / static_cast<double>(made) * static_cast<double>(total - made);
        say(concat("round ", round + 1, " of ", rounds, ", run ", made + 1, " of ", total, ", ",
                   made == 0 ? "" : concat(duration_text(left), " left, "), describe(measured.layout)));
        std::optional<RunSample> sample = run(candidates.configurations[which], env_steps);
        if (!sample) return false;
        measured.runs.push_back(*std::move(sample));
        ++made;
      }
    }
    return true;
  }
};

// Never over another file, also none that came meanwhile.
void write_new_file(const std::filesystem::path& file, const std::string& text) {
  // "x" refuses an existing file in the same call that creates it.
  std::FILE* out = std::fopen(file.c_str(), "wx");
  if (out == nullptr) throw_file_error("write", file, errno);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const int error = errno;
  if (std::fclose(out) == 0 && is_written) return;
  const int cause = is_written ? errno : error;
  std::error_code ignored;
  std::filesystem::remove(file, ignored);  // what is there is cut short
  throw_file_error("write", file, cause);
}

// A layout that claims the same bits and has others is a defect, which tuning finds by the way.
void require_promises_held(const TuneFindings& findings) {
  for (const std::size_t which : broken_promises(findings.layouts)) {
    TANDEM_CHECK(false, "runs with ", describe(findings.layouts[which].layout),
                 " must learn the same bits as the given layout, and ended in another state");
  }
}

TuneFindings tune(const TuneCommand& command, const Configuration& given, Candidates& candidates,
                  const rl::EnvRegistry& environments) {
  const ScratchFolder folder("tune");
  // The second Ctrl-C ends the process without destructors; the folder goes before.
  const StopSignals signals([&folder] { folder.remove(); });
  ProgressLine progress;
  const Tuning tuning{environments, signals, folder, progress, given.options.quiet};
  TuneFindings findings{
      .work = work_text(given.options), .cores = usable_cores().whole(), .rounds = command.options.rounds};
  tuning.say(concat("finding out how many steps take ", command.options.seconds, " s"));
  const std::optional<std::int64_t> env_steps = tuning.steps_in(given, command.options.seconds);
  findings.env_steps = env_steps.value_or(0);
  // Each is false when a signal came; then no layout is chosen and no file written.
  const bool is_done = env_steps && tuning.measure(candidates, command.options.rounds, *env_steps);
  findings.layouts = candidates.measured;
  if (is_done) findings.chosen = choose(findings.layouts);
  return findings;
}

}  // namespace

ExitCode run_command(const TuneCommand& command, const rl::EnvRegistry& environments) {
  const Surroundings surroundings = surroundings_of(environments, 1);
  Configuration given;
  Candidates candidates;
  Faults faults;
  faults.collect(require_one_process);
  faults.collect([&] { require_new_file(command.options.output); });
  faults.collect([&] { require_no_call_options(command.sources.flags); });
  faults.collect([&] {
    given = configure(command.sources, surroundings);
    algorithm_of(given.options).require_tunable(given.options);
    candidates = candidates_of(command, given, surroundings);
  });
  faults.raise();

  // Faults end the command before this line, so no minute is lost on a run that cannot be used.
  TuneFindings findings = tune(command, given, candidates, environments);
  const auto print = [&] {
    std::cout << (command.output == Output::kJson ? to_json(findings) + "\n"
                                                  : printable(to_text(findings, program_name())));
  };
  try {  // whatever fails, what was measured is shown
    require_promises_held(findings);
    if (findings.chosen) {
      write_new_file(command.options.output,
                     to_config_file(findings, candidates.configurations[*findings.chosen].yaml));
      findings.output = command.options.output.string();
    }
  } catch (const std::exception&) {
    print();
    throw;
  }
  print();
  return findings.chosen ? ExitCode::kDone : ExitCode::kStopped;
}

}  // namespace tandem::app
