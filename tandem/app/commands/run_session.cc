// Checks of a configuration are listed in surroundings_of(), in the order in which their faults are reported;
// train_in() is the frame of a run: log, progress, profile, and the messages at its end.
#include "tandem/app/commands/run_session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/profile.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/run/progress.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/run_log.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/train/train.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"
#include "tandem/base/version.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/concurrency/cores.h"
#include "tandem/device/device_set.h"
#include "tandem/model/files/checkpoint_store.h"
#include "tandem/rl/env/python/python_envs.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/sync/replica.h"

namespace tandem::app {
namespace {

std::int64_t env_steps_of(const model::Checkpoint& checkpoint) {
  const auto& counters = checkpoint.info().counters;
  const auto found = counters.find("env_steps");
  return found == counters.end() ? 0 : found->second;
}

// A damaged summary counts as none.
bool has_failed(const RunPaths& paths) {
  try {
    return read_json_file(paths.summary()).at("end").as_string() == name_of(RunEnd::kFailed);
  } catch (const JsonError&) {
    return false;
  }
}

// Whether an evaluation ended the run, and its return is what the options ask for now.
bool has_reached_target(const JsonValue& summary, const TrainOptions& options) {
  if (summary.find("reason") == nullptr || !options.eval.every_steps || !options.eval.stop_at) return false;
  return summary.at("reached_return").as_double() >= *options.eval.stop_at;
}

// Of a run whose folder no other process holds. A damaged status says nothing.
bool ended_without_a_word(const RunPaths& paths) {
  // Every end that is told writes a summary; one from before a resume is still there while the run goes on.
  std::error_code ignored;
  if (!std::filesystem::exists(paths.summary(), ignored)) return true;
  try {
    const std::optional<RunStatus> status = read_status(paths.status());
    return status && status->state == kRunning;
  } catch (const RunError&) {
    return false;
  }
}

// A run that ended without an error has a checkpoint, and one that began has the folder for them: who goes on without
// would erase what the run has recorded.
void require_nothing_lost(const RunPaths& paths) {
  std::error_code ignored;
  const bool has_folder = std::filesystem::exists(paths.checkpoints(), ignored);
  const bool has_ended = std::filesystem::exists(paths.summary(), ignored) && !has_failed(paths);
  const bool has_metrics = std::filesystem::exists(paths.metrics(), ignored);
  if (!has_ended && (has_folder || !has_metrics)) return;
  throw ConfigError(
      concat(paths.folder.string(), " has ", has_ended ? "a summary.json" : "a metrics.jsonl",
             " but no checkpoint, and going on would begin at the first step and erase what it recorded; ", "put ",
             paths.checkpoints().string(), " back, or train anew in another folder"));
}

// Writes the notes of the configuration to the log, and their first lines to the terminal.
void say_notes(const Configuration& configuration, const learner::Ranks& ranks, Progress& progress, RunLog& log) {
  std::vector<std::string> notes = configuration.notes;
  if (ranks.size() > 1) notes.insert(notes.begin(), ranks.description());
  for (const std::string& note : notes) {
    log.info(note);
    progress.say(note.substr(0, note.find('\n')));
  }
}

void say_outcome(Progress& progress, const Summary& summary, const RunPaths& paths) {
  const UpdateMetrics& last = summary.last;
  progress.say(concat(summary.env, " ", summary.reason.empty() ? name_of(summary.end) : summary.reason, " after ",
                      count_text(static_cast<double>(last.env_steps)), " steps: mean return of the last 100 episodes ",
                      return_text(last, "unknown"), ", ", count_text(last.env_steps_per_s), " steps/s"));
  if (summary.solved_at_env_steps) {
    progress.say(concat("solved after ", count_text(static_cast<double>(*summary.solved_at_env_steps)), " steps"));
  }
  const std::string folder = paths.folder.string();
  progress.say(concat("run folder: ", folder, "  (curve.png, summary.json, checkpoints)"));
  if (summary.end != RunEnd::kFinished) {
    progress.say(concat("to go on: ", program_name(), " resume ", folder));
  } else if (const std::string policy = first_policy(last.figures); policy.empty()) {
    progress.say(concat("next: ", program_name(), " eval ", folder, " --episodes 100"));
  } else {
    progress.say(concat("next: ", program_name(), " export ", folder, " --policy ", policy, " -o policy.pt"));
  }
}

// Queues the job again, as SIGUSR1 asks. The run has stopped by then, and its record is complete.
void requeue(Progress& progress, RunLog& log) {
  if (requeue_job() == Requeued::kDone) {
    log.info("the job is queued again");
    progress.say("the job is queued again");
  } else {
    log.warning("SIGUSR1 asks for the job to be queued again, and there is none: SLURM_JOB_ID is not set");
  }
}

// Writes the profile of a run that failed: its user wants to know who waited for whom. An error here must not hide it.
void keep_profile(const Profile& profile, RunLog& log) {
  try {
    log.info(profile.finish());
  } catch (const RunError& error) {
    log.error(concat("the profile could not be written: ", error.what()));
  }
}

// Throws ConfigError when the launcher ends all ranks after the first death.
void require_survivors(const TrainOptions& options) {
  if (options.survivors == Survivors::kEnd) return;
  const std::string why = comm::why_none_survive(comm::launcher_environment());
  if (why.empty()) return;
  throw ConfigError(concat(why, "; or use survivors: end with --resume auto, which goes on from the last checkpoint"));
}

// Throws ConfigError when a replica of some rank would have no shard.
void require_shards_for(const TrainOptions& options, int ranks) {
  if (!options.shards) return;  // the devices are at fault
  const auto shards = static_cast<int>(*options.shards);
  const auto replicas = static_cast<int>(device::parse_device_set(options.devices).size());
  if (ranks == 1) (void)subtree_of(shards, replicas, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const int fall_to_it = ranks > shards ? 0 : subtree_of(shards, ranks, rank).size();
    if (fall_to_it >= replicas) continue;
    // Devices count for each rank; the shards of a run that goes on stay as they are.
    const int fewest = ranks > shards ? 0 : shards / ranks;
    throw ConfigError(concat("on ", ranks, " ranks with ", replicas, " replicas each, ", fall_to_it, " fall to rank ",
                             rank, ", and each replica needs one; use ",
                             fewest > 0 ? concat("--devices cpu:", fewest, ", which each rank has, or ") : "",
                             "fewer ranks, or for a new run ", sync::default_shards(ranks, replicas), " shards"));
  }
}

// As many as this host's ranks have cores for, and as the shards of each rank allow.
int replicas_here(int shards, int ranks) {
  if (ranks > shards) return 1;  // require_shards_for() says what is wrong
  int fewest = shards;
  for (int rank = 0; rank < ranks; ++rank) fewest = std::min(fewest, subtree_of(shards, ranks, rank).size());
  const int ranks_here = comm::launcher_environment().local_size.value_or(ranks);
  return std::clamp(usable_cores().whole() / std::max(1, ranks_here), 1, fewest);
}

// Lists the checks of all algorithms, since the algorithm is not known yet; each runs only when it is the chosen one.
void append_checks_of_algorithms(const rl::EnvRegistry& environments, int ranks, std::vector<OptionCheck>& checks) {
  for (const auto& algorithm : algorithms()) {
    for (const OptionCheck& check : algorithm->checks({.environments = environments, .ranks = ranks})) {
      checks.push_back({check.key, [name = algorithm->name(), run = check.run](const TrainOptions& options) {
                          if (options.algo == name) run(options);
                        }});
    }
  }
}

}  // namespace

Surroundings surroundings_of(const rl::EnvRegistry& environments, int ranks, InstructionSet instructions) {
  Surroundings surroundings;
  surroundings.ranks = ranks;
  surroundings.instructions = instructions;
  surroundings.count_replicas = [ranks](const std::string& devices) {
    return static_cast<int>(device::parse_device_set(devices).size()) * ranks;
  };
  surroundings.default_shards = [ranks](const std::string& devices) -> std::int64_t {
    return sync::default_shards(ranks, static_cast<int>(device::parse_device_set(devices).size()));
  };
  surroundings.replicas_here = [ranks](std::int64_t shards) { return replicas_here(static_cast<int>(shards), ranks); };
  surroundings.choose_torso = [&environments](const TrainOptions& options) {
    const rl::EnvRegistry known = environments_of(environments, options);
    if (known.find_multi_agent(options.env) != nullptr) return rl::Torso::kAuto;  // each policy chooses its own
    const rl::Torso chosen = rl::chosen_torso(options.policy.torso, known.spec(options.env));
    return chosen == rl::Torso::kNone ? rl::Torso::kAuto : chosen;  // without images there is nothing to choose
  };
  const auto record_in = [](const TrainOptions& options, const ConfigSources& sources) -> RecordOfRun {
    const std::string folder = sources.recorded->parent_path().string();
    return {.options = options,
            .file = *sources.recorded,
            .command = sources.is_resume ? std::vector<std::string>{program_name(), "resume", folder}
                                         : std::vector<std::string>{program_name(), "train", "--resume", "must",
                                                                    "--run-dir", folder}};
  };
  surroundings.require_own_plugins = [record_in](const TrainOptions& options, const ConfigSources& sources) {
    require_own_plugins(record_in(options, sources));
  };
  surroundings.require_own_python = [record_in](const TrainOptions& options, const ConfigSources& sources) {
    require_own_python(record_in(options, sources));
  };
  surroundings.choose_python = [](const TrainOptions& options) -> std::optional<std::filesystem::path> {
    if (!rl::is_python_env(options.env)) return std::nullopt;
    return python_of(options.python);
  };
  surroundings.sha256_of_plugins = sha256_of_plugins;
  surroundings.environments_of_plugins = [](const TrainOptions& options) {
    const rl::EnvRegistry brought = with_plugins({}, options);
    std::vector<std::string> names;
    for (const rl::EnvEntry& entry : brought.entries()) names.push_back(entry.spec.id);
    for (const rl::MultiAgentEntry& entry : brought.multi_agent_entries()) names.push_back(entry.spec.id);
    return names;
  };
  surroundings.normalizable = [&environments](const TrainOptions& options) -> Surroundings::Normalizable {
    const rl::EnvRegistry known = environments_of(environments, options);
    if (known.find_multi_agent(options.env) != nullptr) return {};
    const std::vector<rl::Leaf>& leaves = known.spec(options.env).observation;
    return {.observations = std::ranges::all_of(leaves, rl::is_float, &rl::Leaf::type), .rewards = true};
  };
  // Plugins and env stand before all that needs the environment: when one of the two fails, the rest is left out.
  surroundings.checks = {
      {"shards", [ranks](const TrainOptions& options) { require_shards_for(options, ranks); }},
      {"survivors", require_survivors},
      {"plugins", [&environments](const TrainOptions& options) { (void)with_plugins(environments, options); }},
  };
  for (OptionCheck& check : environment_checks(environments)) surroundings.checks.push_back(std::move(check));
  append_checks_of_algorithms(environments, ranks, surroundings.checks);
  surroundings.folder = std::filesystem::current_path();
  return surroundings;
}

void require_own_devices(const std::vector<c10::Device>& devices, int ranks) {
  if (ranks == 1) return;
  const auto shared = std::ranges::find_if(devices, [](c10::Device device) { return device.is_cuda(); });
  if (shared == devices.end()) return;
  throw ConfigError(
      concat("--ranks ", ranks, " --devices ", device::to_string(devices), ": all ", ranks, " ranks would share ",
             shared->str(),
             "; for several CUDA devices of this machine leave --ranks out and name them all (--devices "
             "cuda:0,1: a replica each), or give each rank its own under a launcher: tandem launch --ranks ",
             ranks, " -- sh -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec tandem train --devices cuda:0 ...'"));
}

std::optional<model::Checkpoint> checkpoint_to_resume(const RunPaths& paths, Configuration& configuration) {
  std::optional<model::Checkpoint> checkpoint = model::CheckpointStore(paths.checkpoints()).latest();
  if (!checkpoint) {
    require_nothing_lost(paths);
    configuration.notes.emplace_back("the run has no checkpoint yet: it starts from the beginning");
    return checkpoint;
  }
  if (ended_without_a_word(paths)) {
    configuration.notes.push_back(
        concat("the run ended without a word (it was killed, its machine went down, or a library called _exit()): the "
               "updates after ",
               checkpoint->updates(), " are made again"));
  }
  const TrainOptions& options = configuration.options;
  std::vector<std::string> changes =
      changed_since(config_of(*checkpoint), options, paths.config().string(), checkpoint->folder().string());
  if (!changes.empty()) throw ConfigError(std::move(changes));
  const std::int64_t made = env_steps_of(*checkpoint);
  // The last update of a run may go beyond its total: how far is not known where it completes episodes.
  const BatchSize batch = algorithm_of(options).batch_size(options);
  if (!batch.may_be_larger && made - options.total_steps >= batch.env_steps) {
    throw ConfigError(concat("total_steps = ", options.total_steps, ": the run in ", paths.folder.string(),
                             " has made ", made,
                             " environment steps already, and steps are not taken back; ask for more than ", made,
                             ", or train anew in another folder"));
  }
  return checkpoint;
}

bool leave_ended(const RunPaths& paths, const TrainOptions& options, const std::optional<model::Checkpoint>& checkpoint,
                 Leader& leader) {
  if (!checkpoint) return false;
  std::error_code ignored;
  if (!std::filesystem::exists(paths.summary(), ignored)) return false;
  std::string how = concat("has made its ", options.total_steps, " steps"), flag = "--total-steps N";
  try {
    const JsonValue summary = read_json_file(paths.summary());
    if (summary.at("updates").as_int64() != checkpoint->updates()) return false;
    if (summary.at("end").as_string() != name_of(RunEnd::kFinished)) return false;
    if (env_steps_of(*checkpoint) < options.total_steps) {
      if (!has_reached_target(summary, options)) return false;
      how = concat("was ", summary.at("reason").as_string());
      flag = "--set eval.stop_at=none";
    }
  } catch (const JsonError&) {
    return false;  // damaged: it is written anew
  }
  leader.dismiss(ExitCode::kDone);
  if (!options.quiet) {
    const std::string folder = paths.folder.string();
    std::cout << printable(concat("the run in ", folder, " ", how, " and is left as it is; `", program_name(),
                                  " resume ", folder, " ", flag, "` goes on with it\n"));
  }
  return true;
}

void end_process(const HungThread& error) {
  const Failure failure = describe_failure(std::make_exception_ptr(error));
  std::cout << std::flush;
  std::cerr << printable(failure.message) << std::flush;
  // Destructors and exit handlers would join the thread that hangs.
  std::_Exit(static_cast<int>(failure.code));
}

std::optional<ExitCode> train_in(RunFolder& folder, const Configuration& configuration,
                                 const std::optional<model::Checkpoint>& from, Leader& leader) {
  const learner::Ranks& ranks = leader.ranks;
  const TrainOptions& options = configuration.options;
  const StopSignals& signals = leader.signals;
  const std::unique_ptr<Progress> progress =
      make_progress(STDOUT_FILENO, options.quiet ? Verbosity::kQuiet : Verbosity::kProgress);
  RunLog log(folder.paths().log(), options.log.level, [&progress](Severity severity, std::string_view text) {
    if (severity == Severity::kWarning) progress->say(concat("warning: ", text));
  });
  log.info(concat("tandem ", kVersion, ", process ", ::getpid()));
  say_notes(configuration, ranks, *progress, log);
  progress->say(concat("run folder: ", folder.paths().folder.string()));
  // Called on the thread that requests the stop, while train() goes on.
  const std::stop_callback said(signals.token(), [&progress] {
    progress->say("stopping after this update, with a checkpoint; Ctrl-C from now on ends at once");
  });
  std::optional<Profile> profile;
  if (options.profile) profile.emplace(folder.paths());
  try {
    // The others begin now. A ConfigError before this line reaches them by Leader::dismiss(), any other by abort().
    leader.send(configuration, folder.paths().place());
    const std::optional<Trained> trained =
        train(configuration, environments_of(leader.environments, options), from, ranks,
              {.folder = folder,
               .progress = *progress,
               .log = log,
               .signals = signals,
               .end_process =
                   [&](const HungThread& error) {
                     progress->finish();
                     log.error(error.what());
                     end_process(error);
                   },
               .kept = leader.survival.kept(),
               .observer = &leader.observer,
               .clock_from = leader.clock_from});
    if (!trained) {
      progress->finish();
      return std::nullopt;
    }
    const auto& [summary, asked] = *trained;
    // The record is complete: no survivor may begin it again.
    leader.survival.close();
    leader.survival.wait_for_the_record(ranks);
    say_outcome(*progress, summary, folder.paths());
    if (profile) progress->say(profile->finish());
    if (summary.end == RunEnd::kStopped && asked == StopRequest::kRequeue) requeue(*progress, log);
    return summary.end == RunEnd::kFinished ? ExitCode::kDone : ExitCode::kStopped;
  } catch (const std::exception& error) {
    progress->finish();
    if (leader.survival.can_go_on(error)) {
      log.warning(concat("the ranks meet anew: ", error.what()));
    } else {
      log.error(error.what());
    }
    if (profile) keep_profile(*profile, log);
    throw;
  }
}

}  // namespace tandem::app
