// The plan of RankOfRun::run(): without other ranks, lead at once. Otherwise meet (or join those that train), then
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

#include "tandem/app/commands/run_session.h"
#include "tandem/app/config/auto_devices.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/run_record.h"
#include "tandem/app/train/train.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/process.h"
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
  std::cerr << concat("tandem: warning: no more news of other hosts' progress (", printable(why),
                      "): rollouts no longer end early for them, and tandem top does not see them\n");
}

// The config.yaml, and behind a zero byte the folder.
// YAML text holds no zero byte, so the first one ends it.
std::vector<std::byte> first_word_of(const Assignment& assignment) {
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

// The open files that a rank needs at most: its own, those of the strangers at its doors, and those of its connections
// and lifelines, some of them twice while the ranks meet anew.
std::uint64_t files_of_rank(int ranks) { return 256 + 8 * static_cast<std::uint64_t>(ranks); }

// Both outlive them.
learner::Ranks ranks_of(comm::World& world, const Survival& survival, int size_of_run) {
  return learner::Ranks(world.group, world.description)
      .out_of(size_of_run)
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

std::chrono::milliseconds deadline_of(const TrainOptions& options) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options.deadline_seconds));
}

// A leader that was silent holds the folder until its launcher has ended it.
RunFolder open_again(const std::filesystem::path& folder) {
  const Deadline deadline = Deadline::after(kFolderPatience);
  while (RunLock::is_held(folder) && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  try {
    return RunFolder::open(folder);
  } catch (const ConfigError& error) {
    throw RunError(concat("the ranks that are left cannot go on with the run's record: ", error.what()));
  }
}

// This rank's part in a run over all rounds; whether it leads may change from round to round.
struct RankOfRun {
  const comm::WorldFlags& words;
  const std::vector<Setting>& flags;
  const OfProgram& program;
  const Lead& lead_first;
  const StopSignals signals{};
  const comm::WorldOptions options = comm::read_world_flags(words);
  const comm::LauncherEnvironment me = comm::launcher_environment();
  Survival survival{me, options};
  ExitCode end = ExitCode::kDone;  // how this rank ends where meet() or meet_anew() gives no world

  // Until the training has ended, round by round.
  ExitCode run() {
    if (me.world_size == 1) return run_alone();
    allow_open_files(files_of_rank(me.world_size));
    // Several ranks: this one came with the others, or for one that died.
    std::optional<comm::World> world = survival.joins() ? meet_anew() : meet();
    std::shared_ptr<comm::Store> first_store;  // rank 0 may host it, for as long as it lives
    // A newcomer never leads the command anew: the others have trained already.
    for (bool is_first = !survival.joins(); world; is_first = false) {
      const learner::Ranks ranks = ranks_of(*world, survival, me.world_size);
      survival.guard(ranks);
      try {
        // Collective: a rank that has joined asks for them, too.
        const std::vector<InstructionsOfRank> instructions = instructions_of(ranks);
        const std::optional<ExitCode> code =
            ranks.leads() ? lead(ranks, instructions, is_first) : follow_leader(ranks, instructions);
        if (code) return *code;
      } catch (const std::exception& error) {
        ranks.abort(concat("rank ", ranks.rank(), " failed: ", error.what()));
        if (!survival.can_go_on(error)) throw;
        if (!ranks.leads())
          survival.notes.push_back(concat("the ranks met anew: ", error.what()));  // rank 0 has logged
      }
      if (!first_store) first_store = std::move(world->store);
      world = meet_or_record();
    }
    return end;
  }

 private:
  ExitCode run_alone() {
    if (!words.backend.empty() || !words.hosts_by.empty() || !words.network.empty() || !words.encrypt.empty()) {
      throw ConfigError(
          "--backend, --hosts-by, --network and --encrypt say how several ranks exchange, and no launcher started this "
          "process as one of several; start it as in tandem launch --ranks 2 -- tandem train ...");
    }
    const learner::Ranks alone;
    return lead(alone, instructions_of(alone), true).value();
  }

  // Nothing when a signal ended the wait for the others.
  std::optional<comm::World> meet() {
    const LateStop late(signals.token(), kMeetingPatience);
    comm::WorldOptions stopped = options;
    stopped.limits.stop = late.token();
    try {
      return comm::open_world(me, stopped);
    } catch (const RunError&) {
      if (!late.token().stop_requested()) throw;
      std::cerr << "tandem: stopped before all ranks had come; nothing was begun\n";
      end = ExitCode::kStopped;
      return std::nullopt;
    }
  }

  // The world of those that go on. Nothing when the run is over, or a signal ended the wait of one that was to join.
  std::optional<comm::World> meet_anew() {
    const LateStop late(signals.token(), kMeetingPatience);
    try {
      return survival.meet_anew(late.token());
    } catch (const RunError&) {
      if (!late.token().stop_requested()) throw;
      if (survival.kept() != nullptr) {
        throw RunError(
            concat("stopped by a signal after ranks were lost, before those that are left had met: there is no "
                   "checkpoint of the last update; the last one is whole, and `tandem resume` goes on from it"));
      }
      std::cerr << "tandem: stopped before the others had let this rank in\n";
      end = ExitCode::kStopped;
      return std::nullopt;
    }
  }

  // A meeting that fails ends the run, unless the others go on without this rank.
  std::optional<comm::World> meet_or_record() {
    try {
      return meet_anew();
    } catch (const comm::LeftBehind&) {
      throw;
    } catch (const RunError& error) {
      if (const KeptState* kept = survival.kept())
        record_failure(survival.assignment.folder, assigned(), kept->progress, error.what());
      throw;
    }
  }

  // Each rank reads the resolved config.yaml of rank 0, so files and presets need not lie on its host. Devices may be
  // named otherwise on each host, and each terminal has its own wish for silence.
  [[nodiscard]] TrainOptions assigned() const {
    TrainOptions its = read_recorded(survival.assignment.config, "the configuration of rank 0");
    for (const Setting& flag : flags) {
      if (flag.key == "devices") its.devices = flag.value.text;
      if (flag.key == "quiet") its.quiet = flag.value.text == "true";
    }
    if (its.devices == kAutoDevices) {  // of this rank's cores; rank 0 has resolved the shards
      const Surroundings here = surroundings_of(program.environments, comm::launcher_environment().world_size);
      its.devices = concat("cpu:", here.replicas_here(its.shards.value_or(1)));
    }
    return its;
  }

  std::optional<ExitCode> lead(const learner::Ranks& ranks, const std::vector<InstructionsOfRank>& instructions,
                               bool is_first) {
    Leader leader{ranks,    lowest_of(instructions), program.environments, program.observer, signals,
                  survival, program.clock_from};
    try {
      if (survival.assignment.config.empty()) require_one_choice(instructions);
      return is_first ? lead_first(leader) : lead_on(leader);
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

  // In place of a leader that died, or again.
  std::optional<ExitCode> lead_on(Leader& leader) {
    const Assignment& assignment = survival.assignment;
    if (assignment.config.empty()) throw RunError("all ranks died before this one had joined them; nothing is left");
    const Configuration configuration{
        .options = assigned(), .yaml = assignment.config, .notes = std::exchange(survival.notes, {})};
    RunFolder folder = open_again(assignment.folder);
    return train_in(folder, configuration, {}, leader);
  }

  std::optional<ExitCode> follow_leader(const learner::Ranks& ranks,
                                        const std::vector<InstructionsOfRank>& instructions) {
    const std::vector<std::byte> word = ranks.from_leader({});
    // Who joins does as the others do, or leaves them.
    if (survival.joins())
      require_one_choice({instructions.front(), instructions[static_cast<std::size_t>(ranks.rank())]});
    if (word.front() != kTrain) {
      await_end_of_leader(ranks);
      return static_cast<ExitCode>(std::to_integer<int>(word.front()));
    }
    survival.assignment = read_assignment(word);
    survival.notes.clear();  // rank 0 has logged its own of the same meetings before it spoke
    const TrainOptions its = assigned();
    if (its.survivors != Survivors::kEnd) survival.start(ranks, deadline_of(its));
    const std::optional<RunEnd> ended =
        follow(its, environments_of(program.environments, its), ranks, signals, survival.kept(), end_process);
    if (!ended) return std::nullopt;
    survival.wait_for_the_record(ranks);
    return *ended == RunEnd::kFinished ? ExitCode::kDone : ExitCode::kStopped;
  }
};

}  // namespace

void Leader::send(const Configuration& configuration, const std::filesystem::path& folder) {
  has_spoken = true;
  survival.assignment = {.config = configuration.yaml, .folder = std::filesystem::absolute(folder)};
  if (ranks.size() > 1) (void)ranks.from_leader(first_word_of(survival.assignment));
  const TrainOptions& options = configuration.options;
  if (options.survivors != Survivors::kEnd) survival.start(ranks, deadline_of(options));
}

void Leader::dismiss(ExitCode code) {
  // The others wait for one first word; a second one would answer a wait that is not there.
  if (std::exchange(has_spoken, true) || ranks.size() == 1) return;
  const auto word = static_cast<std::byte>(code);
  (void)ranks.from_leader(std::span(&word, 1));
}

ExitCode run_on_all_ranks(const comm::WorldFlags& words, const std::vector<Setting>& flags, const OfProgram& program,
                          const Lead& lead) {
  return RankOfRun{words, flags, program, lead}.run();
}

}  // namespace tandem::app
