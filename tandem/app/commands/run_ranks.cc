// The plan of run_on_all_ranks(): without other ranks, lead at once. Otherwise meet (or join those that train), then
// train in rounds: agree on instructions, lead or follow, and after a loss that can be survived meet anew, where the
// first of the members leads on from the kept state.
#include "tandem/app/commands/run_ranks.h"

#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "tandem/app/commands/common_instructions.h"
#include "tandem/app/commands/run_session.h"
#include "tandem/app/run/run_lock.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/run_record.h"
#include "tandem/app/train/train.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"
#include "tandem/comm/world_board.h"
#include "tandem/concurrency/worker.h"

namespace tandem::app {
namespace {

// The first message of rank 0: an exit code, or kTrain, which the settings of the training follow.
constexpr auto kTrain = std::byte{255};

// How long a rank that got a signal still waits for others to come: if they do, all end together, with a checkpoint.
constexpr std::chrono::seconds kMeetingPatience{5};

// How long a launcher may take to end a leader that the others have left behind.
constexpr std::chrono::seconds kFolderPatience{10};

// A token that is requested some time after another one.
// A worker thread waits, so that the callback of the early token returns at once. Members are in this order because the
// callback must be gone before the worker, and the worker before the source that it requests.
class LateStop {
 public:
  LateStop(const std::stop_token& early, Clock::duration later)
      : worker_("late-stop",
                [this, later](const std::stop_token& end) {
                  MutexLock lock(mutex_);
                  if (!changed_.wait(mutex_, end, [this]() TANDEM_REQUIRES(mutex_) { return asked_; })) return;
                  (void)changed_.wait(mutex_, end, Deadline::after(later), [] { return false; });
                  if (!end.stop_requested()) late_.request_stop();
                }),
        noticed_(early, [this] {
          MutexLock lock(mutex_);
          asked_ = true;
          changed_.notify_all();
        }) {}

  [[nodiscard]] std::stop_token token() const { return late_.get_token(); }

 private:
  std::stop_source late_;
  Mutex mutex_;
  CondVar changed_;
  bool asked_ TANDEM_GUARDED_BY(mutex_) = false;
  Worker worker_;
  std::stop_callback<std::function<void()>> noticed_;
};

// Not in the log, which rank 0 has: any host's first rank can lose the store.
void say_lost_news(const std::string& why) {
  std::cerr << concat("tandem: warning: no more news of other hosts' progress (", why,
                      "): rollouts no longer end early for them, and tandem top does not see them\n");
}

// Nothing when a signal ended the wait for the others.
std::optional<comm::World> meet(const comm::LauncherEnvironment& me, comm::WorldOptions options,
                                const StopSignals& signals) {
  const LateStop late(signals.token(), kMeetingPatience);
  options.limits.stop = late.token();
  try {
    return comm::open_world(me, options);
  } catch (const RunError&) {
    if (!late.token().stop_requested()) throw;
    std::cerr << "tandem: stopped before all ranks had come; nothing was begun\n";
    return std::nullopt;
  }
}

// The config.yaml, and behind a zero byte the folder.
// YAML text holds no zero byte, so the first one ends it.
std::vector<std::byte> word_of(const Assignment& assignment) {
  const std::string text = concat(assignment.config, std::string(1, '\0'), assignment.folder.string());
  std::vector<std::byte> word{kTrain};
  const auto bytes = std::as_bytes(std::span(text));
  word.insert(word.end(), bytes.begin(), bytes.end());
  return word;
}
Assignment read_assignment(const std::vector<std::byte>& word) {
  const std::string text(reinterpret_cast<const char*>(word.data()) + 1, word.size() - 1);
  const std::size_t end = text.find('\0');
  return {.config = text.substr(0, end), .folder = text.substr(end + 1)};
}

// Both outlive them.
learner::Ranks ranks_of(comm::World& world, const Survival& survival) {
  return learner::Ranks(world.group, world.description)
      .out_of(survival.size_of_run())
      .with_boards([&](int units, tandem::Range mine, std::chrono::milliseconds news, Limits limits) {
        limits.stop = survival.broken();  // who opens a board waits in the store, where no death is seen
        return comm::open_board(world, units, mine, limits, {.every = news, .on_loss = say_lost_news});
      })
      .with_losses([&survival] { return survival.broken(); });
}

// Rank 0 says why there is nothing to do, and a launcher looks first at the rank that ends first.
void await_end_of_leader(const learner::Ranks& ranks) {
  try {
    (void)ranks.from_leader({});
  } catch (const RunError&) {
    return;  // it has ended: that is what was waited for
  }
}

// The settings that a command line makes for its own rank alone, whatever the one of rank 0 says.
// Devices may be named otherwise on each host, and each terminal has its own wish for silence.
void keep_own(const std::vector<Setting>& flags, TrainOptions& options) {
  for (const Setting& flag : flags) {
    if (flag.key == "devices") options.devices = flag.value.text;
    if (flag.key == "quiet") options.quiet = flag.value.text == "true";
  }
}

TrainOptions options_of(const Assignment& assignment, const std::vector<Setting>& flags) {
  // Each rank reads the resolved config.yaml of rank 0, so files and presets need not lie on its host.
  TrainOptions options = read_recorded(assignment.config, "the configuration of rank 0");
  keep_own(flags, options);
  return options;
}

std::chrono::milliseconds deadline_of(const TrainOptions& options) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options.deadline_seconds));
}

// How a rank takes part in a training; nothing is returned when the ranks are to meet anew.
// Lives on each rank for all rounds; whether a rank leads may change from round to round.
class Part {
 public:
  Part(const std::vector<Setting>& flags, const rl::EnvRegistry& environments, const StopSignals& signals,
       Survival& survival)
      : flags_(flags), environments_(environments), signals_(signals), survival_(survival) {}

  // Records the failure of a run whose ranks could not meet.
  void record_failure(const std::string& why) const {
    const Assignment& assignment = survival_.assignment;
    const KeptState* kept = survival_.kept();
    if (kept != nullptr) app::record_failure(assignment.folder, options_of(assignment, flags_), kept->progress, why);
  }

  using Lead = std::function<std::optional<ExitCode>(Leader&)>;

  std::optional<ExitCode> lead_others(const learner::Ranks& ranks, const std::vector<InstructionsOfRank>& instructions,
                                      const Lead& lead) {
    Leader leader(ranks, lowest_of(instructions), signals_, survival_);
    try {
      if (survival_.assignment.config.empty()) require_one_choice(instructions);
      return lead(leader);
    } catch (const ConfigError&) {
      try {
        leader.dismiss(ExitCode::kUserCanFixIt);
      } catch (const RunError&) {
        // Somebody is gone; what the user can fix is still what there is to say.
        ranks.abort("rank 0 has nothing to train");
      }
      throw;
    }
  }

  std::optional<ExitCode> follow_leader(const learner::Ranks& ranks,
                                        const std::vector<InstructionsOfRank>& instructions) {
    const std::vector<std::byte> word = ranks.from_leader({});
    // Who joins does as the others do, or leaves them.
    if (survival_.joins())
      require_one_choice({instructions.front(), instructions[static_cast<std::size_t>(ranks.rank())]});
    if (word.front() != kTrain) {
      await_end_of_leader(ranks);
      return static_cast<ExitCode>(std::to_integer<int>(word.front()));
    }
    survival_.assignment = read_assignment(word);
    (void)survival_.take_notes();  // rank 0 has logged its own of the same meetings before it spoke
    const TrainOptions options = options_of(survival_.assignment, flags_);
    if (options.survivors != Survivors::kEnd) survival_.start(ranks, deadline_of(options));
    const std::optional<RunEnd> end =
        follow(options, with_plugins(environments_, options), ranks, signals_, survival_.kept(), end_process);
    if (!end) return std::nullopt;
    survival_.wait_for_the_record(ranks);
    return *end == RunEnd::kFinished ? ExitCode::kDone : ExitCode::kStopped;
  }

  // In place of a leader that died, or again.
  std::optional<ExitCode> lead_on(Leader& leader) {
    const Assignment& assignment = survival_.assignment;
    if (assignment.config.empty()) throw RunError("all ranks died before this one had joined them; nothing is left");
    const Configuration configuration{
        .options = options_of(assignment, flags_), .yaml = assignment.config, .notes = survival_.take_notes()};
    RunFolder folder = open_again(assignment.folder);
    return train_in(folder, configuration, environments_, {}, leader);
  }

 private:
  // A leader that was silent holds it until its launcher has ended it.
  static RunFolder open_again(const std::filesystem::path& folder) {
    const Deadline deadline = Deadline::after(kFolderPatience);
    while (RunLock::is_held(folder) && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    try {
      return RunFolder::open(folder);
    } catch (const ConfigError& error) {
      throw RunError(concat("the ranks that are left cannot go on with the run's record: ", error.what()));
    }
  }

  const std::vector<Setting>& flags_;
  const rl::EnvRegistry& environments_;
  const StopSignals& signals_;
  Survival& survival_;
};

// The world of those that go on; else the exit code: the run is over, or a signal ended the wait of one that was to
// join.
std::variant<comm::World, ExitCode> meet_anew(Survival& survival, const StopSignals& signals) {
  const LateStop late(signals.token(), kMeetingPatience);
  try {
    std::optional<comm::World> world = survival.meet_anew(late.token());
    if (world) return *std::move(world);
    return ExitCode::kDone;
  } catch (const RunError&) {
    if (!late.token().stop_requested()) throw;
    if (survival.kept() != nullptr) {
      throw RunError(
          concat("stopped by a signal after ranks were lost, before those that are left had met: there is no "
                 "checkpoint of the last update; the last one is whole, and `tandem resume` goes on from it"));
    }
    std::cerr << "tandem: stopped before the others had let this rank in\n";
    return ExitCode::kStopped;
  }
}

// A meeting that fails ends the run, unless the others go on without this rank.
std::variant<comm::World, ExitCode> meet_or_record(const Part& part, Survival& survival, const StopSignals& signals) {
  try {
    return meet_anew(survival, signals);
  } catch (const comm::LeftBehind&) {
    throw;
  } catch (const RunError& error) {
    part.record_failure(error.what());
    throw;
  }
}

// Until the training has ended, round by round.
ExitCode train_in_rounds(comm::World first, Part& part, Survival& survival, const StopSignals& signals,
                         const Part::Lead& lead_first) {
  comm::World world = std::move(first);
  std::shared_ptr<comm::Store> first_store;  // rank 0 may host it, for as long as it lives
  const Part::Lead lead_on = [&part](Leader& leader) { return part.lead_on(leader); };
  // A newcomer never leads the command anew: the others have trained already.
  for (bool is_first = !survival.joins();; is_first = false) {
    const learner::Ranks ranks = ranks_of(world, survival);
    survival.guard(ranks);
    try {
      // Collective: a rank that has joined asks for them, too.
      const std::vector<InstructionsOfRank> instructions = instructions_of(ranks);
      const std::optional<ExitCode> end = ranks.leads()
                                              ? part.lead_others(ranks, instructions, is_first ? lead_first : lead_on)
                                              : part.follow_leader(ranks, instructions);
      if (end) return *end;
    } catch (const std::exception& error) {
      ranks.abort(concat("rank ", ranks.rank(), " failed: ", error.what()));
      if (!survival.can_go_on(error)) throw;
      if (!ranks.leads()) survival.note_cause(error);  // rank 0 has logged it
    }
    if (!first_store) first_store = std::move(world.store);
    std::variant<comm::World, ExitCode> next = meet_or_record(part, survival, signals);
    if (const ExitCode* code = std::get_if<ExitCode>(&next)) return *code;
    world = std::get<comm::World>(std::move(next));
  }
}

}  // namespace

void Leader::send(const Configuration& configuration, const std::filesystem::path& folder) {
  has_spoken_ = true;
  survival_.assignment = {.config = configuration.yaml, .folder = std::filesystem::absolute(folder)};
  if (ranks_.size() > 1) (void)ranks_.from_leader(word_of(survival_.assignment));
  const TrainOptions& options = configuration.options;
  if (options.survivors != Survivors::kEnd) survival_.start(ranks_, deadline_of(options));
}

void Leader::dismiss(ExitCode code) {
  // The others wait for one first word; a second one would answer a wait that is not there.
  if (std::exchange(has_spoken_, true) || ranks_.size() == 1) return;
  const auto word = static_cast<std::byte>(code);
  (void)ranks_.from_leader(std::span(&word, 1));
}

ExitCode run_on_all_ranks(const comm::WorldFlags& words, const std::vector<Setting>& flags,
                          const rl::EnvRegistry& environments,
                          const std::function<std::optional<ExitCode>(Leader&)>& lead) {
  const StopSignals signals;
  const comm::WorldOptions options = comm::read_world_flags(words);
  const comm::LauncherEnvironment me = comm::launcher_environment();
  Survival survival(me, options);
  Part part(flags, environments, signals, survival);
  if (me.world_size == 1) {
    if (!words.backend.empty() || !words.hosts_by.empty() || !words.network.empty()) {
      throw ConfigError(
          "--backend, --hosts-by and --network say how several ranks exchange, and no launcher started this process as "
          "one of several; start it as in tandem launch --ranks 2 -- tandem train ...");
    }
    const learner::Ranks alone;
    return part.lead_others(alone, instructions_of(alone), lead).value();
  }
  // Several ranks: this one came with the others, or for one that died.
  std::optional<comm::World> met;
  if (survival.joins()) {
    std::variant<comm::World, ExitCode> joined = meet_anew(survival, signals);
    if (const ExitCode* code = std::get_if<ExitCode>(&joined)) return *code;
    met = std::get<comm::World>(std::move(joined));
  } else {
    met = meet(me, options, signals);
    if (!met) return ExitCode::kStopped;
  }
  return train_in_rounds(std::move(*met), part, survival, signals, lead);
}

}  // namespace tandem::app
