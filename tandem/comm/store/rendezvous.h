// comm/rendezvous.h: how ranks of a run meet anew when some have died, or when others want to join.
//
//   Rendezvous rendezvous(connect, me);
//   rendezvous.begin(all);                  // the ranks that started
//   ... a peer is lost: throw the group away ...
//   const std::optional<Round> round = rendezvous.meet(limits);   // who goes on, and as which rank
//
// Everything goes through the run's store, under keys of its own. Each process gives signs of life there, four a
// second, on a thread of its own, and looks out for those of the others; a launcher that sees a rank end leaves word of
// it (comm/store/launcher_reports.h). A member that has ended, or that was silent until the deadline, breaks the round:
// whoever waits for it may give up. The next round is decided when each member has come, has ended, or has been silent
// for 3 s: the first of those that came writes down who is in it, joiners behind survivors. Only a side with a quorum
// (has_quorum()) goes on. A connection to the store that breaks is made anew.
//
// Threads: single-thread, but someone_waits(), broken() and why_broken() may be called from any. Blocking: meet() and
// join() wait until the round is decided, at most until `limits`, and beyond them, as the destructor may, for one
// question to a store that does not answer (make_reconnecting_store(), some 30 s). Errors: RunError when the store is
// out of reach or when this side does not prevail; LeftBehind; DeadlineExceeded and GroupAborted as Store::get().
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

/// Those that train together from one meeting to the next.
struct Round {
  struct Loss {
    Life who;
    std::string how;  // "died: SIGKILL", "gave no sign of life for 3 s"
  };

  int number = 0;
  std::vector<Life> members;  // in the order of their ranks in this round
  int mine = 0;               // this process's place among them
  std::vector<Loss> lost;     // of the round before
  std::vector<Life> joined;
};

/// The others have gone on without this rank: it has no part in the run any more, which may well go on.
class LeftBehind : public RunError {
 public:
  using RunError::RunError;
};

/// What a side sees of the ranks that the run had.
struct Quorum {
  int members = 0;        // that the run had until now
  int here = 0;           // on this side
  int dead = 0;           // known to have ended: they are on no side
  bool has_first = true;  // whether the first of those that are not dead is on this side
};

/// Whether this side goes on: it has more than half of the ranks that may still live, or half of them and the first.
/// Of two sides that see the same ranks dead at most one does.
[[nodiscard]] constexpr bool has_quorum(const Quorum& quorum) {
  const int elsewhere = quorum.members - quorum.dead - quorum.here;
  return quorum.here > elsewhere || (quorum.here == elsewhere && quorum.here > 0 && quorum.has_first);
}

class Rendezvous {
 public:
  struct Options {
    std::chrono::milliseconds beat{250};         // from one sign of life to the next
    std::chrono::milliseconds silence{3'000};    // without one, after which a member is not waited for in a meeting
    std::chrono::milliseconds deadline{30'000};  // without one, after which a member's round is broken
  };
  /// A connection to the part of the store, for each thread; `stop` ends the wait for somebody to listen there.
  using Connect = std::function<std::unique_ptr<Store>(const std::stop_token& stop)>;

  /// Begins to give signs of life.
  Rendezvous(const Connect& connect, const Life& me, const Options& options);
  Rendezvous(const Connect& connect, const Life& me) : Rendezvous(connect, me, Options()) {}

  /// Whether the run is one whose ranks meet anew: some rank called begin().
  [[nodiscard]] static bool has_begun(Store& part);
  /// Whether the run has ended well, as close() said.
  [[nodiscard]] static bool is_over(Store& part);

  /// Round 0. Every member calls it, with the same members and the same deadline.
  void begin(std::vector<Life> members);
  /// The next round, with those that are left of this one and those that wait. Nothing when the run is over.
  [[nodiscard]] std::optional<Round> meet(const Limits& limits);
  /// Waits to be let in, by the next round that others hold. Nothing when the run is over.
  [[nodiscard]] std::optional<Round> join(const Limits& limits);
  /// Whether somebody waited at the last sign of life: it is time to meet.
  [[nodiscard]] bool someone_waits() const { return waits_.load(std::memory_order_relaxed); }
  /// The deadline from now on. What the launcher knows of it is that at begin().
  void set_deadline(std::chrono::milliseconds deadline) {
    const MutexLock lock(mutex_);
    deadline_ = deadline;
  }
  /// Requested soon after a member of this round has ended, by a launcher's word, or was silent until the deadline;
  /// when the others have gone on without this rank; and when it did not reach the store until the deadline. What waits
  /// for a member may give up. Of this round alone. Time in which this process itself was stopped, or the store did not
  /// answer, counts for nobody's silence.
  [[nodiscard]] std::stop_token broken() const {
    const MutexLock lock(mutex_);
    return broken_.get_token();
  }
  /// Of this round; empty when it is not.
  [[nodiscard]] std::string why_broken() const {
    const MutexLock lock(mutex_);
    return why_broken_;
  }
  /// The run has ended well: who waits, or still meets, is told so.
  void close();
  /// Whether the run has ended well. Then members of this round that give no sign of life are left behind.
  [[nodiscard]] bool end_without_the_silent();

  [[nodiscard]] const Round& round() const { return round_; }

 private:
  // A member as this process sees it.
  struct Seen {
    enum class State { kAwaited, kHere, kDead, kSilent };

    Life who;
    State state = State::kAwaited;
    std::optional<std::string> beat{};  // as it counts them
    Clock::time_point sign = Clock::now();
  };
  // What the thread that gives signs of life sees of the members of a round.
  struct Watch {
    int round = -1;
    std::vector<Seen> members;
    Clock::time_point looked = Clock::now();
  };
  [[nodiscard]] std::chrono::milliseconds deadline() const;
  [[nodiscard]] Watch watched() const;
  static std::vector<Seen> unseen(const std::vector<Life>& members);
  static Seen::State look_at(Store& store, Seen& seen, std::chrono::milliseconds silence);
  void beat(const Connect& connect, const std::stop_token& stop);
  void watch(const std::vector<Life>& members, int round);
  void note_waiting(std::vector<Life> lives);
  void look_around(Store& store);
  void break_round(int round, const std::string& why);
  void lose_store(Clock::time_point reached, const std::exception& error);
  [[nodiscard]] std::string fault_of(Store& store, Watch& seen, std::chrono::milliseconds deadline) const;
  [[nodiscard]] std::vector<Seen> members_seen() const;
  [[nodiscard]] bool is_gone(Seen& seen);
  void require_anybody(std::vector<Seen>& members, Clock::time_point& heard);
  [[nodiscard]] bool is_decided(std::vector<Seen>& members);
  void require_quorum(const std::vector<Seen>& members) const;
  void decide(int number, const std::vector<Seen>& members);
  [[nodiscard]] std::optional<Round> enter(int number, std::vector<Life> members);
  [[nodiscard]] std::string how_lost(const Life& who);

  const Life me_;
  const Options options_;
  const std::unique_ptr<Store> store_;
  Round round_;
  std::atomic<bool> waits_{false};
  mutable Mutex mutex_;
  std::chrono::milliseconds deadline_ TANDEM_GUARDED_BY(mutex_);
  Watch watch_ TANDEM_GUARDED_BY(mutex_);  // of this round
  std::stop_source broken_ TANDEM_GUARDED_BY(mutex_);
  std::string why_broken_ TANDEM_GUARDED_BY(mutex_);
  Worker worker_;  // last: it uses the others
};

}  // namespace tandem::comm
