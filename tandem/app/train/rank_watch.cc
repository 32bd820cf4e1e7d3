// A rank packs its phase, its updates and a count of its beats into one 64-bit cell of a board that all ranks can read,
// so that a reader never sees half of a change. Rank 0 compares the cells with those of its last look: a cell that
// stays the same is a rank that gave no sign of life.
#include "tandem/app/train/rank_watch.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::chrono::milliseconds kBeat{500};
constexpr std::array<const char*, 5> kPhases{"start", "sample", "learn", "wait", "save"};

// A cell of the board: 24 bits that count signs of life, 8 of the phase, 32 of the updates. None is zero.
constexpr int kPhaseShift = 32, kBeatShift = 40;

// Updates wrap at 2^32 and beats at 2^24; a reader only compares beats for equality.
std::size_t phase_of(std::uint64_t cell) { return static_cast<std::size_t>(cell >> kPhaseShift & 0xFF); }
std::int64_t updates_of(std::uint64_t cell) { return static_cast<std::int64_t>(cell & 0xFFFFFFFF); }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// "HOST PID" of every rank.
std::vector<RankStatus> introduce(const learner::Ranks& ranks) {
  const std::string mine = concat(::getpid(), " ", host_name());
  std::vector<RankStatus> all;
  for (const std::vector<std::byte>& bytes : ranks.gather(std::as_bytes(std::span(mine)))) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t space = text.find(' ');
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    all.push_back({.host = text.substr(space + 1),
                   .process = std::stoll(text.substr(0, space)),
                   .phase = kPhases[0],
                   .env_steps_per_s = kUnknown,
                   .wait_share = kUnknown});
  }
  return all;
}

}  // namespace

// Every rank makes the same collective calls in the order of the members.
// The worker comes last: it reads all other members.
RankWatch::RankWatch(const rl::TrainingRun& run, const learner::Ranks& ranks)
    : run_(run),
      rank_(ranks.rank()),
      board_(ranks.open_board(ranks.size(), {ranks.rank(), ranks.rank() + 1}, kBeat / 2)),
      status_{.ranks = introduce(ranks)},
      seen_(static_cast<std::size_t>(ranks.size())),
      made_(static_cast<std::size_t>(ranks.size())),
      worker_("watch", [this](const std::stop_token& stop) { watch(stop); }) {}

void RankWatch::publish(const RunFolder& folder, RunStatus known, RunLog& log) {
  MutexLock lock(mutex_);
  known.ranks = std::move(status_.ranks);
  status_ = std::move(known);
  first_step_ = status_.env_steps;
  started_ = Clock::now();
  folder_ = &folder;
  log_ = &log;
}

void RankWatch::made(const rl::RunReport& report) {
  updates_.store(run_.updates(), std::memory_order_relaxed);
  MutexLock lock(mutex_);
  if (folder_ == nullptr) return;
  status_.env_steps = run_.env_steps();
  status_.env_steps_per_s = static_cast<double>(run_.env_steps() - first_step_) / seconds_since(started_);
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const rl::RankReport& its = report.ranks[rank];
    rl::RankReport& all = made_[rank];
    all.sample_seconds += its.sample_seconds;
    all.learn_seconds += its.learn_seconds;
    all.wait_seconds += its.wait_seconds;
    all.env_steps += its.env_steps;
  }
  // A report may lack figures by rank; of a single rank, the totals are its own.
  if (report.ranks.empty() && status_.ranks.size() == 1) status_.ranks[0].env_steps_per_s = status_.env_steps_per_s;
}

void RankWatch::end(RunEnd end) {
  worker_.request_stop();
  worker_.join();
  post();  // a run may end before a beat that shows its last updates
  write(name_of(end));
}

void RankWatch::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    post();
    write(kRunning);
    MutexLock lock(mutex_);
    // Nobody notifies: the wait ends after a beat, or at once when a stop is requested.
    (void)never_.wait(mutex_, stop, Deadline::after(kBeat), [] { return false; });
  }
}

void RankWatch::post() {
  std::uint64_t phase = 0;
  switch (stage_.load(std::memory_order_relaxed)) {
    case Stage::kStart:
      break;
    case Stage::kUpdate:
      phase = 1 + static_cast<std::uint64_t>(run_.phase());
      break;
    case Stage::kSave:
      phase = kPhases.size() - 1;
      break;
  }
  const auto updates = static_cast<std::uint64_t>(updates_.load(std::memory_order_relaxed)) & 0xFFFFFFFF;
  // Beats count from 1, so a posted cell differs from the zero of a rank that has not posted.
  board_.set_cell(rank_, ++beats_ << kBeatShift | phase << kPhaseShift | updates);
}

// Notes what has changed on the board since the last look.
void RankWatch::look() {
  const Clock::time_point now = Clock::now();
  for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
    const std::uint64_t cell = board_.cell(static_cast<int>(rank));
    Seen& seen = seen_[rank];
    if (cell != seen.cell) seen.sign = now;
    if (phase_of(cell) != phase_of(seen.cell) || updates_of(cell) != updates_of(seen.cell)) seen.phase = now;
    seen.cell = cell;
    RankStatus& status = status_.ranks[rank];
    status.phase = kPhases[std::min(phase_of(cell), kPhases.size() - 1)];
    status.updates = updates_of(cell);
    status.phase_s = std::chrono::duration<double>(now - seen.phase).count();
    status.silent_s = std::chrono::duration<double>(now - seen.sign).count();
  }
}

// Takes rates over the updates since the last time, if there were any: single updates differ much.
void RankWatch::take_rates() {
  for (std::size_t rank = 0; rank < made_.size(); ++rank) {
    const rl::RankReport its = std::exchange(made_[rank], {});
    if (its.seconds() <= 0) continue;
    status_.ranks[rank].env_steps_per_s = static_cast<double>(its.env_steps) / its.seconds();
    status_.ranks[rank].wait_share = its.wait_seconds / its.seconds();
  }
}

// Without the lock while the disk works, so that the training never waits for it.
void RankWatch::write(const std::string& state) {
  RunStatus status;
  const RunFolder* folder = nullptr;
  {
    MutexLock lock(mutex_);
    if (folder_ == nullptr) return;
    look();
    take_rates();
    status = status_;
    folder = folder_;
  }
  status.state = state;
  stamp(status);
  try {
    folder->require_in_place();
    write_status(folder->paths().status(), status);
    // A full disk must not end a training for the sake of a status display.
  } catch (const RunError& error) {
    MutexLock lock(mutex_);
    folder_ = nullptr;
    log_->warning(concat("`tandem top` sees nothing more of this run: ", error.what()));
  }
}

}  // namespace tandem::app
