// comm/store/rendezvous.h: lets the ranks of a run form a new group when some ranks have died, or when others want to
// join: elastic training, as the rendezvous of torchrun, but without a restart of the surviving processes.
//
//   Rendezvous rendezvous(connect, me);
//   rendezvous.begin(all);                  // the ranks that started
//   ... a peer is lost: throw the group away ...
//   const std::optional<Round> round = rendezvous.meet(limits);   // who goes on, and as which rank
//
// A "round" is the time from one meeting to the next, with its members. Everything goes through the run's store:
//   1. Each process writes a heartbeat four times a second, on a thread of its own, and reads those of the other
//   members.
//      A launcher that sees a process end reports that, too (comm/store/launcher_reports.h).
//   2. A member that has ended, or whose heartbeat did not change until the deadline, breaks the round: broken() is
//      requested, and waits for that member may be given up.
//   3. Survivors call meet(). The next round is decided when each member has come, has ended, or has given no heartbeat
//      for 3 s. The first of the members that came writes the member list: survivors in their order, then joiners.
//   4. Only a side with a quorum goes on (has_quorum()), so that two halves of a cut network never both do.
// A connection to the store that breaks is made anew.
//
// Threads: single-thread, but someone_waits(), broken() and why_broken() may be called from any. Blocking: meet() and
// join() wait until the round is decided, at most until `limits`. Beyond that they, and the destructor, may wait for
// one call to a store that does not answer (make_reconnecting_store(), some 30 s). Errors: RunError when the store
// cannot be reached or this side has no quorum; LeftBehind; DeadlineExceeded and GroupAborted as Store::get().
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/comm/store/launcher_reports.h"
#include "tandem/comm/store/store.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

/// The processes that train together from one meeting to the next.
struct Round {
  struct Loss {
    Life who;
    std::string how;  // "died: SIGKILL", "gave no sign of life for 3 s"
  };

  int number = 0;
  std::vector<Life> members;  // in the order of their ranks in this round
  int mine = 0;               // this process's index in `members`
  std::vector<Loss> lost;     // members of the round before that are not in this one
  std::vector<Life> joined;   // members that were not in the round before
};

/// The others have gone on without this rank. The run may go on, but this process can never take part in it again.
class LeftBehind : public RunError {
 public:
  using RunError::RunError;
};

/// The state of a run's ranks as one side sees it, when the network may be cut into several sides.
struct Quorum {
  int members = 0;        // ranks of the last round
  int here = 0;           // ranks on this side
  int dead = 0;           // ranks that are known to have ended: they are on no side
  bool has_first = true;  // whether the first of those that are not dead is on this side
};

/// Whether this side goes on: it has more than half of the ranks that may still be alive, or half of them and the
/// first. If two sides know of the same dead ranks, at most one of the sides has a quorum.
[[nodiscard]] constexpr bool has_quorum(const Quorum& quorum) {
  const int elsewhere = quorum.members - quorum.dead - quorum.here;
  return quorum.here > elsewhere || (quorum.here == elsewhere && quorum.here > 0 && quorum.has_first);
}

class Rendezvous {
 public:
  struct Options {
    std::chrono::milliseconds beat{250};         // from one heartbeat to the next
    std::chrono::milliseconds silence{3'000};    // a meeting does not wait for a member without heartbeats for so long
    std::chrono::milliseconds deadline{30'000};  // a member without heartbeats for so long breaks the round
  };
  /// Makes a connection to the rendezvous' part of the store; each thread has its own. `stop` ends the wait for a
  /// server.
  using Connect = std::function<std::unique_ptr<Store>(const std::stop_token& stop)>;

  /// Begins to write heartbeats.
  Rendezvous(const Connect& connect, const Life& me, const Options& options);
  Rendezvous(const Connect& connect, const Life& me) : Rendezvous(connect, me, Options()) {}

  /// Whether the ranks of this run use a rendezvous: some rank has called begin().
  [[nodiscard]] static bool has_begun(Store& part);
  /// Whether the run is complete: some rank has called close().
  [[nodiscard]] static bool is_over(Store& part);

  /// Enters round 0. Every member calls it, with the same members and the same deadline.
  void begin(std::vector<Life> members);
  /// Enters the next round, with the survivors of this one and the joiners that wait. Returns nothing when the run is
  /// complete.
  [[nodiscard]] std::optional<Round> meet(const Limits& limits);
  /// Waits until the members of the run let this process into their next round. Returns nothing when the run is
  /// complete.
  [[nodiscard]] std::optional<Round> join(const Limits& limits);
  /// Whether a joiner waited at the last heartbeat: the members should meet.
  [[nodiscard]] bool someone_waits() const { return waits_.load(std::memory_order_relaxed); }
  /// Sets the deadline from now on. The launcher knows only the deadline at begin().
  void set_deadline(std::chrono::milliseconds deadline) {
    const MutexLock lock(mutex_);
    deadline_ = deadline;
  }
  /// A token that is requested when this round is broken: soon after a launcher has reported a member's end or a member
  /// gave no heartbeat until the deadline; when the others have gone on without this rank; and when this rank did not
  /// reach the store until the deadline. The token holds for this round only. Time in which this process was stopped,
  /// or in which the store did not answer, is not counted as any member's silence.
  [[nodiscard]] std::stop_token broken() const {
    const MutexLock lock(mutex_);
    return broken_.get_token();
  }
  /// Says why this round is broken; empty if it is not.
  [[nodiscard]] std::string why_broken() const {
    const MutexLock lock(mutex_);
    return why_broken_;
  }
  /// Marks the run as complete. Processes in meet() or join() return nothing then.
  void close();
  /// Whether the run is complete. If so, marks the members of this round without heartbeats as left behind, so that a
  /// launcher may end them.
  [[nodiscard]] bool end_without_the_silent();

  /// The round that this process is in; without members before begin() or join().
  [[nodiscard]] const Round& round() const { return round_; }

 private:
  // The state of a member as this process sees it.
  struct Seen {
    enum class State { kAwaited, kHere, kDead, kSilent };

    Life who;
    State state = State::kAwaited;
    std::optional<std::string> beat{};      // the member's last heartbeat, a count
    Clock::time_point sign = Clock::now();  // when this process saw that count change
  };
  // The members of a round as the heartbeat thread sees them.
  struct Watch {
    int round = -1;
    std::vector<Seen> members;
    Clock::time_point looked =
        Clock::now();  // a long time since then means that this process, or the store, was stopped
  };
  [[nodiscard]] std::chrono::milliseconds deadline() const;
  [[nodiscard]] Watch watched() const;
  // The members as if all had just given a heartbeat.
  static std::vector<Seen> unseen(const std::vector<Life>& members);
  static Seen::State look_at(Store& store, Seen& seen, std::chrono::milliseconds silence);
  // The heartbeat thread: beat() is its body, and calls the five after watch().
  void beat(const Connect& connect, const std::stop_token& stop);
  // Begins to watch the members of a new round, with a new token for broken().
  void watch(const std::vector<Life>& members, int round);
  void note_waiting(std::vector<Life> lives);
  void look_around(Store& store);
  void break_round(int round, const std::string& why);
  void lose_store(Clock::time_point reached, const std::exception& error);
  [[nodiscard]] std::string fault_of(Store& store, Watch& seen, std::chrono::milliseconds deadline) const;
  // The parts of meet() and join(), on the caller's thread.
  [[nodiscard]] std::vector<Seen> members_seen() const;
  [[nodiscard]] bool is_gone(Seen& seen);
  void require_anybody(std::vector<Seen>& members, Clock::time_point& heard);
  [[nodiscard]] bool is_decided(std::vector<Seen>& members);
  // Throws RunError, which says what is known of each rank, unless this side has a quorum.
  void require_quorum(const std::vector<Seen>& members) const;
  void decide(int number, const std::vector<Seen>& members);
  // Makes `number` this process's round. Throws LeftBehind if this process is not among the members.
  [[nodiscard]] std::optional<Round> enter(int number, std::vector<Life> members);
  [[nodiscard]] std::string how_lost(const Life& who);

  const Life me_;
  const Options options_;
  const std::unique_ptr<Store> store_;  // the caller's connection; the heartbeat thread has one of its own
  Round round_;
  std::atomic<bool> waits_{false};  // see someone_waits()
  mutable Mutex mutex_;
  std::chrono::milliseconds deadline_ TANDEM_GUARDED_BY(mutex_);
  Watch watch_ TANDEM_GUARDED_BY(mutex_);  // this round's
  std::stop_source broken_ TANDEM_GUARDED_BY(mutex_);
  std::string why_broken_ TANDEM_GUARDED_BY(mutex_);
  Worker worker_;  // last: it uses the others
};

}  // namespace tandem::comm
