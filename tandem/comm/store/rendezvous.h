// comm/store/rendezvous.h: lets the ranks of a run form a new group when some ranks have died, or when others want to
// join: elastic training, as the rendezvous of torchrun, but without a restart of the surviving processes.
//
//   Rendezvous rendezvous(connect, me);
//   rendezvous.begin(all);                  // the ranks that started
//   ... a peer is lost: throw the group away ...
//   const std::optional<Round> round = rendezvous.meet(limits);   // who goes on, and as which rank
//
// A "round" is the time from one meeting to the next, with its members. Everything goes through the run's store:
//   1. Each process writes a heartbeat four times a second, on a thread of its own, and reads those of the others. A
//      launcher that sees a process end reports that at once (report_end()).
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

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/store_value.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

/// The rendezvous' part of a run's store. `store` has none of the prefixes of open_store().
[[nodiscard]] inline std::unique_ptr<Store> rendezvous_part(Store& store, const std::string& run_id,
                                                            int restart_count) {
  return store.part(concat("tandem/", run_id, "/", restart_count, "/rendezvous"));
}

// The keys of that part that a launcher uses, too.

inline constexpr const char* kBegunKey = "begun";        // set since round 0
inline constexpr const char* kOverKey = "over";          // set when the run is complete
inline constexpr const char* kDeadlineKey = "deadline";  // Rendezvous::Options::deadline, in ms

/// The value: how a process ended, as its launcher reports.
[[nodiscard]] inline std::string end_key(const Life& who) { return "ended/" + name_of(who); }
/// The value: why the others have gone on without a process.
[[nodiscard]] inline std::string left_key(const Life& who) { return "left/" + name_of(who); }
/// Set if a process is, or was, a member of a round.
[[nodiscard]] inline std::string let_in_key(const Life& who) { return "in/" + name_of(who); }

/// A launcher reports that a process has ended; `how` is "SIGKILL" or "exit code 3", say.
inline void report_end(Store& part, const Life& who, const std::string& how) { part.set(end_key(who), how); }

/// Whether the others have gone on without this process, since it gave no heartbeat or did not come to a meeting. A
/// launcher may end the process if it still runs: no other process will ever wait for it again.
[[nodiscard]] inline bool is_left_behind(Store& part, const Life& who) { return part.find(left_key(who)).has_value(); }

/// The deadline after which the ranks of the run take a rank without heartbeats for lost; nothing where ranks do not
/// use a rendezvous.
[[nodiscard]] inline std::optional<std::chrono::milliseconds> deadline_of_run(Store& part) {
  using std::chrono::milliseconds, std::chrono::nanoseconds;
  constexpr std::int64_t kMost = std::chrono::duration_cast<milliseconds>(nanoseconds::max()).count();
  const std::optional<std::string> deadline = part.find(kDeadlineKey);
  if (!deadline) return std::nullopt;
  return milliseconds(number_in(kDeadlineKey, *deadline, 0, kMost));
}

/// How long a launcher leaves a process alone that is stopped (SIGSTOP): the deadline of the run, if no other process
/// would miss the stopped one, since it was not let in yet or the run is complete. Nothing for a member of a run that
/// goes on, whose heartbeats the others watch, and nothing where ranks do not use a rendezvous.
[[nodiscard]] inline std::optional<std::chrono::milliseconds> patience_with_stopped(Store& part, const Life& who) {
  if (!part.find(kBegunKey)) return std::nullopt;
  if (part.find(let_in_key(who)) && !part.find(kOverKey)) return std::nullopt;  // a member: its peers decide about it
  return deadline_of_run(part);
}

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
struct LeftBehind : RunError {
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
    // A member that is alive and did not come to a meeting: whether its launcher may end it, since nobody waits for it
    // any more, or it comes back as another life.
    enum class Late { kIsLeft, kComesBack } late = Late::kIsLeft;
  };
  /// Makes a connection to the rendezvous' part of the store; each thread has its own. `stop` ends the wait for a
  /// server.
  using Connect = std::function<std::unique_ptr<Store>(const std::stop_token& stop)>;

  /// Begins to write heartbeats.
  Rendezvous(const Connect& connect, const Life& me, const Options& options);
  Rendezvous(const Connect& connect, const Life& me) : Rendezvous(connect, me, Options()) {}

  /// Whether the ranks of this run use a rendezvous: some rank has called begin().
  [[nodiscard]] static bool has_begun(Store& part) { return part.find(kBegunKey).has_value(); }
  /// Whether the run is complete: some rank has called close().
  [[nodiscard]] static bool is_over(Store& part) { return part.find(kOverKey).has_value(); }

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
  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }
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
  void close() { store_->set(kOverKey, "1"); }
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
  // The members of a round as one thread sees them.
  struct Watch {
    int round = -1;
    std::vector<Seen> members;
    Clock::time_point looked = Clock::now();  // when the thread looked last

    // Whether this process, or the store, was stopped since the last look: that was longer ago than `patience`. The
    // heartbeats of that time were not seen, so all members count as if they had just given one.
    bool was_stopped(Clock::duration patience);
  };
  [[nodiscard]] Watch watched() const;
  // The members as if all had just given a heartbeat.
  static std::vector<Seen> unseen(const std::vector<Life>& members);
  static Seen::State look_at(Store& store, Seen& seen, std::chrono::milliseconds silence);
  // The heartbeat thread: beat() is its body, and calls those after watch().
  void beat(const Connect& connect, const std::stop_token& stop);
  // Begins to watch the members of a new round, with a new token for broken().
  void watch(const std::vector<Life>& members, int round);
  void note_waiting(std::vector<Life> lives);
  void look_around(Store& store);
  void break_round(int round, const std::string& why);
  [[nodiscard]] std::string fault_of(Store& store, Watch& seen, std::chrono::milliseconds deadline) const;
  // The parts of meet() and join(), on the caller's thread.
  [[nodiscard]] Watch members_seen() const;
  [[nodiscard]] bool is_gone(Seen& seen);
  void require_anybody(Watch& seen);
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
  std::atomic<std::chrono::milliseconds> deadline_;  // the one that counts now
  Watch watch_ TANDEM_GUARDED_BY(mutex_);            // this round's
  std::stop_source broken_ TANDEM_GUARDED_BY(mutex_);
  std::string why_broken_ TANDEM_GUARDED_BY(mutex_);
  Worker worker_;  // last: it uses the others
};

}  // namespace tandem::comm
