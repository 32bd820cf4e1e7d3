// One thread waits in turn() for signals, room on the two output streams, output and ends of ranks. settle() collects
// the ends of a turn, sorted by likeliest cause, and judge() decides for each: replace it, go on without it, or end
// all. Twice a second look_at_processes() asks the witness about ranks that are stopped or left behind.
#include "tandem/app/launch/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tandem/app/launch/launch_report.h"
#include "tandem/app/launch/rank_output.h"
#include "tandem/app/launch/rank_process.h"
#include "tandem/app/launch/signal_inbox.h"
#include "tandem/base/check.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr int kInterrupted = 130;
constexpr double kSameAct = 0.3;  // seconds within which signals are one wish
constexpr std::chrono::milliseconds kLook{500};

// A rank's place in the launch, which several processes may hold one after the other.
struct Seat {
  explicit Seat(int number) : rank(number), lines(number) {}

  const int rank;
  int restarts = 0;
  bool is_given_up = false;                              // and was killed
  std::optional<std::chrono::milliseconds> stopped_for;  // as was seen; nothing when it runs
  std::optional<RankProcess> process;                    // nothing when it has ended
  RankLines lines;
  Clock::time_point started, ran_at;  // the last look at which it was not stopped, or its start
};

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, const VariablesOf& variables_of, const LaunchStreams& streams,
             const LaunchWitness& witness)
      : options_(options),
        variables_of_(variables_of),
        witness_(witness),
        out_(streams.out),
        err_(streams.err),
        warden_(options.ranks) {
    for (int rank = 0; rank < options.ranks; ++rank) seats_.emplace_back(rank);
  }

  // Runs until no rank is left, then until all output is written. An interrupt by the user prevails over failures, and
  // failures over ranks that stopped by themselves.
  int run() {
    for (Seat& seat : seats_) start(seat);
    while (is_any_running()) turn();
    const bool is_complete = !failures_.empty() && !has_given_up_ && witness_.is_complete && witness_.is_complete();
    if (!failures_.empty() && !is_complete) {
      const std::optional<ToldFailure> told = witness_.first_failure ? witness_.first_failure() : std::nullopt;
      if (told) put_first(told->rank, failures_);
      err_.add(failure_report(failures_, told));
    }
    while (!out_.is_empty() || !err_.is_empty()) turn();
    if (is_interrupted_) return kInterrupted;
    if (!failures_.empty() && !is_complete) return failures_.front().end.exit_code();
    return is_stopped_ ? kInterrupted : 0;
  }

 private:
  void start(Seat& seat) {
    seat.started = seat.ran_at = Clock::now();
    seat.is_given_up = false;
    seat.stopped_for.reset();
    seat.process.emplace(options_.command, variables_of_(seat.rank, seat.restarts), warden_, seat.rank);
  }

  [[nodiscard]] bool is_any_running() const {
    return std::ranges::any_of(seats_, [](const Seat& seat) { return seat.process.has_value(); });
  }

  // Waits until something happens, and deals with all that did.
  void turn() {
    polled_.clear();
    const std::size_t signals = watch(signals_.descriptor(), POLLIN);
    const std::size_t out = watch(out_.is_empty() || err_.is_inside_line() ? -1 : out_.descriptor(), POLLOUT);
    const std::size_t err = watch(err_.is_empty() || out_.is_inside_line() ? -1 : err_.descriptor(), POLLOUT);
    const std::size_t ranks = polled_.size();
    for (Seat& seat : seats_) {
      watch(seat.process ? seat.process->exit_event() : -1, POLLIN);
      watch(seat.process && !out_.is_full() ? seat.process->out().get() : -1, POLLIN);
      watch(seat.process && !err_.is_full() ? seat.process->err().get() : -1, POLLIN);
    }
    if (::poll(polled_.data(), polled_.size(), milliseconds_left()) < 0) return;  // EINTR: there is a signal to read

    if (happened(err)) err_.write_some();  // first: it is less, and it is what a user must see
    if (happened(out) && !err_.is_inside_line()) out_.write_some();
    std::vector<Seat*> ended;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (happened(ranks + 3 * i + 1)) read(seats_[i], Stream::kOut);
      if (happened(ranks + 3 * i + 2)) read(seats_[i], Stream::kErr);
      if (happened(ranks + 3 * i)) ended.push_back(&seats_[i]);
    }
    if (!ended.empty()) settle(ended);
    if (is_starting_over_ && !is_ending_ && !is_any_running()) start_again();
    if (happened(signals)) obey_signals();
    if (kill_at_.expired()) lose_patience();
    if (look_at_.expired()) look_at_processes();
  }

  // Adds an entry for poll() and returns its index. A descriptor of -1 keeps the place and is ignored by poll(), so
  // that the three entries of a rank can be found by its number.
  std::size_t watch(int descriptor, short events) {
    polled_.push_back({descriptor, events, 0});
    return polled_.size() - 1;
  }
  [[nodiscard]] bool happened(std::size_t index) const { return polled_[index].revents != 0; }

  // Rounds up: a wait that ends a fraction of a millisecond early would make poll() spin until the deadline.
  [[nodiscard]] int milliseconds_left() const {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(kill_at_.remaining(), look_at_.remaining())).count();
    return static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
  }

  // One read; true when there may be more.
  bool read(Seat& seat, Stream stream) {
    Descriptor& pipe = stream == Stream::kOut ? seat.process->out() : seat.process->err();
    OutputQueue& queue = stream == Stream::kOut ? out_ : err_;
    std::array<char, 65536> buffer;
    const ssize_t size = pipe.is_open() ? ::read(pipe.get(), buffer.data(), buffer.size()) : 0;
    if (size > 0) queue.add(seat.lines.add(stream, {buffer.data(), static_cast<std::size_t>(size)}));
    if (size == 0) pipe.close();
    return size > 0;
  }

  // Processes that ended: prints the rest of what they wrote, and decides what becomes of the others.
  void settle(const std::vector<Seat*>& ended) {
    std::vector<RankFailure> failures;
    for (Seat* seat : ended) {
      const ProcessEnd end = seat->process->reap();
      for (const Stream stream : {Stream::kOut, Stream::kErr}) {
        while (read(*seat, stream)) {
        }
        (stream == Stream::kOut ? out_ : err_).add(seat->lines.finish(stream));
      }
      seat->process.reset();
      if (end.is_success()) continue;
      if (witness_.on_failure) witness_.on_failure(seat->rank, seat->restarts, describe(end));
      failures.push_back({.rank = seat->rank,
                          .end = end,
                          .after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - seat->started),
                          .last_lines = {seat->lines.last().begin(), seat->lines.last().end()}});
    }
    std::stable_sort(failures.begin(), failures.end(),
                     [](const RankFailure& a, const RankFailure& b) { return is_likelier_cause(a.end, b.end); });
    for (RankFailure& failure : failures) judge(std::move(failure));
  }

  // The cases in their order: the user ended the run; the rank was stopped by a signal; it may be replaced; the others
  // go on; the others are ended. Failures of the last two kinds are kept for the report.
  void judge(RankFailure failure) {
    if (is_interrupted_ || is_starting_over_) return;  // they were asked to end
    if (was_stopped(failure.end)) {
      is_stopped_ = true;
      if (is_ending_ || !is_any_running()) return;
      err_.add(concat("tandem: rank ", failure.rank, " was stopped (", describe(failure.end),
                      "); the others are asked to end too\n"));
      passed_on_.push_back(SIGTERM);
      return end_all(SIGTERM);
    }
    Seat& seat = seats_[static_cast<std::size_t>(failure.rank)];
    const bool may_start = !is_ending_ && options_.on_death == OnDeath::kReplace;
    const bool is_missed = may_start && witness_.can_be_replaced && !witness_.can_be_replaced(seat.rank);
    if (may_start && (is_missed ? attempts_ : seat.restarts) < options_.max_restarts) {
      ++seat.restarts;
      if (is_missed) return start_over(failure);
      err_.add(concat("tandem: ", describe(failure), "; started again (", seat.restarts, " of ", options_.max_restarts,
                      " times)\n"));
      start(seat);
      return;
    }
    if (!is_ending_ && options_.on_death == OnDeath::kContinue) {
      err_.add(concat("tandem: ", describe(failure), "; the others go on (--on-death continue)\n"));
    } else if (!is_ending_ && is_any_running()) {
      err_.add(concat("tandem: ", describe(failure), "; the others are asked to end\n"));
      has_given_up_ = true;
      end_all(SIGTERM);
    }
    failures_.push_back(std::move(failure));
    failed_at_ = Clock::now();
  }

  // By its own account, or by a signal that came through here before the rank had a handler for it.
  [[nodiscard]] bool was_stopped(const ProcessEnd& end) const {
    if (end.signal == 0) return end.code == kInterrupted;
    return std::ranges::count(passed_on_, end.signal) > 0;
  }

  // The others cannot go on with a new process of the rank.
  void start_over(const RankFailure& failure) {
    err_.add(concat("tandem: ", describe(failure), ", and the others cannot go on without it; all ranks are started ",
                    "again (", ++attempts_, " of ", options_.max_restarts, " times)\n"));
    is_starting_over_ = true;
    kill_at_ = Deadline::after(options_.grace);
    signal_all(SIGTERM);
  }
  void start_again() {
    is_starting_over_ = false;
    kill_at_ = Deadline::infinite();
    if (witness_.on_new_attempt) witness_.on_new_attempt();
    for (Seat& seat : seats_) start(seat);
  }

  void obey_signals() {
    while (const std::optional<int> signal = signals_.next()) {
      if (*signal == SIGUSR1 || *signal == SIGUSR2) {
        passed_on_.push_back(*signal);
        signal_all(*signal);
      } else if (is_ending_) {
        // Programs that end others send twice: timeout(1) to its child, then to the group that both are in.
        if (*signal == SIGINT && seconds_since(ending_since_) >= kSameAct) kill_all();
      } else {
        is_interrupted_ = true;
        err_.add(concat("tandem: ", describe(ProcessEnd{.signal = *signal}), " is passed on to the ranks, which get ",
                        in_seconds(options_.grace), " to end; Ctrl-C from now on kills them\n"));
        end_all(*signal);
      }
      // Nobody is left to wait for but a reader that does not read.
      if (!is_any_running()) {
        out_.clear();
        err_.clear();
      }
    }
  }

  // Starts the grace period; ranks that are still there when it is over are killed in lose_patience().
  void end_all(int signal) {
    is_ending_ = true;
    ending_since_ = Clock::now();
    kill_at_ = Deadline::after(options_.grace);
    signal_all(signal);
  }
  void lose_patience() {
    for (const Seat& seat : seats_) {
      if (!seat.process) continue;
      err_.add(
          concat("tandem: rank ", seat.rank, " has not ended within ", in_seconds(options_.grace), " and is killed\n"));
    }
    kill_all();
  }
  // Time is counted from look to look, and a gap counts as two looks at most.
  void look_at_processes() {
    const Clock::time_point now = Clock::now();
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - std::exchange(looked_, now));
    look_at_ = Deadline::after(kLook);
    // A launcher that was stopped itself must not count that time against its ranks.
    const auto counted = std::min(passed, 2 * kLook);
    for (Seat& seat : seats_) {
      if (!seat.process || seat.is_given_up) continue;
      if (!seat.process->is_stopped()) seat.ran_at = now;
      const std::string why = why_given_up(seat, counted);
      if (why.empty()) continue;
      seat.is_given_up = true;
      err_.add(concat("tandem: ", why, "; its process is killed\n"));
      seat.process->signal(SIGKILL);
    }
    end_who_is_alone(counted);
  }
  // Nobody else ends them: those that would look out for them have ended, and a stopped process hears no signal.
  void end_who_is_alone(std::chrono::milliseconds passed) {
    const bool is_alone =
        !is_ending_ && has_failed_beside_a_stopped_one() && std::ranges::all_of(seats_, [](const Seat& seat) {
          return !seat.process || (!seat.is_given_up && seat.process->is_stopped());
        });
    if (!is_alone) return alone_for_.reset();
    alone_for_ = alone_for_ ? *alone_for_ + passed : std::chrono::milliseconds(0);
    const auto patience =
        (witness_.patience_without_others ? witness_.patience_without_others() : std::nullopt).value_or(options_.grace);
    if (*alone_for_ < patience) return;
    for (const Seat& seat : seats_) {
      if (!seat.process) continue;
      err_.add(concat("tandem: rank ", seat.rank, " is stopped (SIGSTOP), and for ", in_seconds(patience),
                      " nobody else has been left: ", failures_.size(),
                      " rank(s) have failed; its process is killed\n"));
    }
    // A stopped process does not handle SIGTERM until it is continued; SIGKILL ends it.
    end_all(SIGKILL);
  }
  // Looks at the ranks that are still there. They overcame each failure during which all of them ran, and may stay
  // stopped.
  [[nodiscard]] bool has_failed_beside_a_stopped_one() const {
    return std::ranges::any_of(
        seats_, [this](const Seat& seat) { return seat.process && failed_at_ && seat.ran_at <= *failed_at_; });
  }
  // Empty when it is not. `passed`: since the last look.
  std::string why_given_up(Seat& seat, std::chrono::milliseconds passed) const {
    // A silent rank may hold something that the others need, the run folder for one.
    if (witness_.is_left_behind && witness_.is_left_behind(seat.rank, seat.restarts))
      return concat("the others have gone on without rank ", seat.rank, ", which was silent");
    if (!witness_.patience_with_stopped) return "";
    if (!seat.process->is_stopped()) {
      seat.stopped_for.reset();
      return "";
    }
    seat.stopped_for = seat.stopped_for ? *seat.stopped_for + passed : std::chrono::milliseconds(0);
    const auto patience = witness_.patience_with_stopped(seat.rank, seat.restarts);
    if (!patience || *seat.stopped_for < *patience) return "";
    return concat("rank ", seat.rank, " has been stopped (SIGSTOP) for ", in_seconds(*patience),
                  " and nobody waits for it");
  }
  void kill_all() {
    kill_at_ = Deadline::infinite();
    signal_all(SIGKILL);
  }
  void signal_all(int signal) const {
    for (const Seat& seat : seats_) {
      if (seat.process) seat.process->signal(signal);
    }
  }

  const LaunchOptions& options_;
  const VariablesOf& variables_of_;
  const LaunchWitness& witness_;
  OutputQueue out_, err_;
  SignalInbox signals_;
  Warden warden_;
  std::deque<Seat> seats_;  // after the warden, which their processes refer to
  std::vector<pollfd> polled_;
  std::vector<RankFailure> failures_;           // in their order; those that were replaced are not in it
  std::optional<Clock::time_point> failed_at_;  // the last of these
  std::vector<int> passed_on_;                  // signals that may mean anything to the ranks
  bool is_ending_ = false;
  int attempts_ = 0;               // how often all ranks were started again
  bool is_starting_over_ = false;  // all ranks are being ended, to be started again
  bool has_given_up_ = false;      // a failure ends the others: how they end is no success
  bool is_stopped_ = false;        // a rank said that it was stopped by a signal
  bool is_interrupted_ = false;
  Clock::time_point ending_since_;
  Deadline kill_at_ = Deadline::infinite();
  Deadline look_at_ = Deadline::after(kLook);
  std::optional<std::chrono::milliseconds> alone_for_;  // since nobody runs but those that are stopped
  Clock::time_point looked_ = Clock::now();
};

}  // namespace

int supervise(const LaunchOptions& options, const VariablesOf& variables_of, const LaunchStreams& streams,
              const LaunchWitness& witness) {
  return Supervisor(options, variables_of, streams, witness).run();
}

}  // namespace tandem::app
