#include "tandem/app/commands/run_ranks.h"

#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tandem/app/train/build_run.h"
#include "tandem/app/train/train.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"
#include "tandem/comm/world_board.h"
#include "tandem/concurrency/failures.h"
#include "tandem/concurrency/worker.h"

namespace tandem::app {
namespace {

// What rank 0 says: one exit code, or kTrain and then the text of config.yaml.
constexpr auto kTrain = std::byte{255};

// How long a rank that got a signal still waits for others to come: if they do, all end together, with a checkpoint.
constexpr std::chrono::seconds kMeetingPatience{5};

// A token that is requested some time after another one.
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

// Rank 0 says why there is nothing to do, and a launcher looks first at the rank that ends first.
void await_end_of_leader(const learner::Ranks& ranks) {
  try {
    (void)ranks.from_leader({});
  } catch (const RunError&) {
    return;  // it has ended: that is what was waited for
  }
}

ExitCode follow_leader(const std::vector<Setting>& flags, const rl::EnvRegistry& environments,
                       const learner::Ranks& ranks, const StopSignals& signals) {
  const std::vector<std::byte> word = ranks.from_leader({});
  if (word.front() != kTrain) {
    await_end_of_leader(ranks);
    return static_cast<ExitCode>(std::to_integer<int>(word.front()));
  }
  const std::string text(reinterpret_cast<const char*>(word.data()) + 1, word.size() - 1);
  TrainOptions options = read_recorded(text, "the configuration of rank 0");
  for (const Setting& flag : flags) {
    if (flag.key == "devices") options.devices = flag.value.text;
  }
  const RunEnd end = follow(options, with_plugins(environments, options), ranks, signals);
  return end == RunEnd::kFinished ? ExitCode::kDone : ExitCode::kStopped;
}

ExitCode lead_others(const learner::Ranks& ranks, const StopSignals& signals,
                     const std::function<ExitCode(Leader&)>& lead) {
  Leader leader(ranks, signals);
  try {
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

}  // namespace

void Leader::send(const Configuration& configuration) {
  has_spoken_ = true;
  if (ranks_.size() == 1) return;
  const auto text = std::as_bytes(std::span(configuration.yaml));
  std::vector<std::byte> word{kTrain};
  word.insert(word.end(), text.begin(), text.end());
  (void)ranks_.from_leader(word);
}

void Leader::dismiss(ExitCode code) {
  if (std::exchange(has_spoken_, true) || ranks_.size() == 1) return;
  const auto word = static_cast<std::byte>(code);
  (void)ranks_.from_leader(std::span(&word, 1));
}

ExitCode run_on_all_ranks(const comm::WorldWords& words, const std::vector<Setting>& flags,
                          const rl::EnvRegistry& environments, const std::function<ExitCode(Leader&)>& lead) {
  const StopSignals signals;
  const comm::WorldOptions options = comm::read_world_words(words);
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.world_size == 1) {
    if (!words.backend.empty() || !words.hosts_by.empty() || !words.network.empty()) {
      throw ConfigError(
          "--backend, --hosts-by and --network say how several ranks exchange, and no launcher started this process as "
          "one of several; start it as in tandem launch --ranks 2 -- tandem train ...");
    }
    const learner::Ranks alone;
    return lead_others(alone, signals, lead);
  }
  std::optional<comm::World> met = meet(me, options, signals);
  if (!met) return ExitCode::kStopped;
  comm::World& world = *met;
  const learner::Ranks ranks =
      learner::Ranks(world.group, world.description)
          .with_boards([&world](int units, tandem::Range mine, std::chrono::milliseconds news, const Limits& limits) {
            return comm::open_board(world, units, mine, limits, {.every = news, .on_loss = say_lost_news});
          });
  try {
    return ranks.leads() ? lead_others(ranks, signals, lead) : follow_leader(flags, environments, ranks, signals);
  } catch (...) {
    ranks.abort(concat("rank ", ranks.rank(), " failed: ", message_of(std::current_exception())));
    throw;
  }
}

}  // namespace tandem::app
