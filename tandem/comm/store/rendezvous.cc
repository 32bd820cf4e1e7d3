#include "tandem/comm/store/rendezvous.h"

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::comm {
namespace {

// Keys in the rendezvous' part of the store; NAME is "rank.restarts", N the number of a round:
//   beat/NAME           heartbeats of a process: a counter
//   round/N/here/NAME   the process waits in meet() for round N
//   round/N/members     the members of round N, written once, by compare_set()
//   latest              the newest round that is decided
//   joiners, join/K     how many processes have asked to join, and the name of the K-th
//   in/, left/, ended/NAME, begun, over, deadline: see rendezvous.h

constexpr std::chrono::milliseconds kLook{20};  // between two looks at the store in a wait

std::string text_of(const std::vector<Life>& lives) {
  return joined(
      lives, [](const Life& life) { return name_of(life); }, " ");
}

std::string beat_key(const Life& who) { return "beat/" + name_of(who); }
std::string here_key(int round, const Life& who) { return concat("round/", round, "/here/", name_of(who)); }
std::string join_key(std::int64_t number) { return concat("join/", number); }
std::string members_key(int round) { return concat("round/", round, "/members"); }

int count_of(Store& store, const std::string& key) {
  const std::optional<std::string> text = store.find(key);
  return text ? static_cast<int>(number_in(key, *text, 0, kMostLives)) : 0;
}

// Returns the processes that have asked to join, are alive, and were not let in. `settled` counts how many of them,
// from the first on, need not be looked at again.
std::vector<Life> waiting(Store& store, int& settled) {
  std::vector<Life> found;
  const int all = count_of(store, "joiners");
  for (int number = settled + 1; number <= all; ++number) {
    const std::string key = join_key(number);
    const std::optional<std::string> text = store.find(key);
    if (!text) continue;  // the process has taken its number and is about to write its name
    const Life who = lives_in(key, *text).front();
    if (store.find(let_in_key(who)) || store.find(end_key(who))) {
      if (settled == number - 1) settled = number;
    } else {
      found.push_back(who);
    }
  }
  return found;
}

bool has(const std::vector<Life>& lives, const Life& who) {
  return std::find(lives.begin(), lives.end(), who) != lives.end();
}

// Waits until it is time for another look at the store. Does not end at the limits' deadline, which the callers check.
void look_again(const Limits& limits, const std::string& doing) {
  if (limits.stop.stop_requested()) throw GroupAborted(concat("stopped while ", doing));
  pause(kLook, {.stop = limits.stop});
}

std::string seconds_text(std::chrono::milliseconds span) {
  return concat(std::chrono::duration<double>(span).count(), " s");
}

}  // namespace

Rendezvous::Rendezvous(const Connect& connect, const Life& me, const Options& options)
    : me_(me),
      options_(options),
      store_(make_reconnecting_store([connect] { return connect({}); })),
      deadline_(options.deadline),
      worker_("rendezvous", [this, connect](const std::stop_token& stop) { beat(connect, stop); }) {}

bool Rendezvous::end_without_the_silent() {
  if (!is_over(*store_)) return false;
  const std::chrono::milliseconds silence = std::min(options_.silence, deadline_.load());
  Watch all = members_seen();
  for (Seen& seen : all.members) {
    if (look_at(*store_, seen, silence) == Seen::State::kSilent && seen.who != me_)
      store_->set(left_key(seen.who), "was silent when the run ended");
  }
  return true;
}

void Rendezvous::begin(std::vector<Life> members) {
  const auto mine = std::find(members.begin(), members.end(), me_);
  TANDEM_CHECK(mine != members.end());
  round_ = {.number = 0, .members = {}, .mine = static_cast<int>(mine - members.begin()), .lost = {}, .joined = {}};
  round_.members = std::move(members);
  watch(round_.members, 0);
  store_->set(members_key(0), text_of(round_.members));  // all members write the same
  store_->set(let_in_key(me_), "1");
  store_->set(kDeadlineKey, concat(deadline_.load().count()));
  store_->set(kBegunKey, "1");
}

std::vector<Rendezvous::Seen> Rendezvous::unseen(const std::vector<Life>& members) {
  std::vector<Seen> all;
  for (const Life& who : members) all.push_back({.who = who});
  return all;
}

bool Rendezvous::Watch::was_stopped(Clock::duration patience) {
  const Clock::time_point now = Clock::now();
  if (now - std::exchange(looked, now) <= patience) return false;
  for (Seen& member : members) member.sign = now;
  return true;
}

void Rendezvous::watch(const std::vector<Life>& members, int round) {
  MutexLock lock(mutex_);
  watch_ = {.round = round, .members = unseen(members)};
  waits_.store(false, std::memory_order_relaxed);  // until the next look
  broken_ = std::stop_source();
  why_broken_.clear();
}

Rendezvous::Watch Rendezvous::watched() const {
  MutexLock lock(mutex_);
  return watch_;
}

// Callbacks of the stop token run without the lock.
void Rendezvous::break_round(int round, const std::string& why) {
  std::optional<std::stop_source> broken;
  {
    MutexLock lock(mutex_);
    if (watch_.round != round || broken_.stop_requested()) return;
    why_broken_ = why;
    broken = broken_;
  }
  broken->request_stop();
}

// Reads a member's heartbeat and the launcher's report. Returns kAwaited if the member is alive.
Rendezvous::Seen::State Rendezvous::look_at(Store& store, Seen& seen, std::chrono::milliseconds silence) {
  std::optional<std::string> beat = store.find(beat_key(seen.who));
  if (beat != seen.beat) {
    seen.beat = std::move(beat);
    seen.sign = Clock::now();
  }
  if (store.find(end_key(seen.who))) return Seen::State::kDead;
  return Clock::now() - seen.sign < silence ? Seen::State::kAwaited : Seen::State::kSilent;
}

// Says why the round cannot go on; empty as long as it can.
std::string Rendezvous::fault_of(Store& store, Watch& seen, std::chrono::milliseconds deadline) const {
  const auto patience = std::min(deadline, options_.silence) / 2;
  std::string fault;
  for (Seen& member : seen.members) {
    const Seen::State state = look_at(store, member, deadline);
    if (seen.was_stopped(patience)) return "";
    if (member.who == me_ || state == Seen::State::kAwaited) continue;
    fault = concat("rank ", member.who.rank,
                   state == Seen::State::kDead ? " has ended" : " gave no sign of life for " + seconds_text(deadline));
  }
  if (fault.empty() && !seen.members.empty() && count_of(store, "latest") > seen.round)
    return concat("the others have met without rank ", me_.rank);
  return fault;
}

// Works on a copy of the watch, since the store may take long to answer, and drops the result if the round has changed.
void Rendezvous::look_around(Store& store) {
  Watch seen = watched();
  const std::string fault = fault_of(store, seen, deadline_.load());
  const int round = seen.round;
  {
    MutexLock lock(mutex_);
    if (watch_.round == round) watch_ = std::move(seen);
  }
  if (!fault.empty()) break_round(round, fault);
}

// The heartbeat thread. Each time: count up the own heartbeat, look for joiners, look at the members.
void Rendezvous::beat(const Connect& connect, const std::stop_token& stop) {
  std::unique_ptr<Store> store;
  int settled = 0;
  Clock::time_point reached = Clock::now();
  while (!stop.stop_requested()) {
    try {
      if (!store) store = make_reconnecting_store([&] { return connect(stop); });
      (void)store->add(beat_key(me_), 1);
      note_waiting(waiting(*store, settled));
      look_around(*store);
      reached = Clock::now();
    } catch (const std::exception& error) {
      // The others take this rank for lost if it gives no heartbeat until the deadline: its round must break then.
      waits_.store(false, std::memory_order_relaxed);
      const std::chrono::milliseconds limit = deadline_;
      if (Clock::now() - reached >= limit) {
        break_round(watched().round, concat("rank ", me_.rank, " has not reached the store for ", seconds_text(limit),
                                            ": ", error.what()));
      }
    }
    pause(options_.beat, {.stop = stop});
  }
}

void Rendezvous::note_waiting(std::vector<Life> lives) {
  MutexLock lock(mutex_);
  for (const Seen& member : watch_.members) std::erase(lives, member.who);  // let in, but not marked so yet
  waits_.store(!lives.empty(), std::memory_order_relaxed);
}

// Looks at a member once more, and returns whether it has ended or fallen silent.
bool Rendezvous::is_gone(Seen& seen) {
  seen.state = look_at(*store_, seen, options_.silence);
  if (seen.who == me_ && seen.state == Seen::State::kSilent) seen.state = Seen::State::kAwaited;
  return seen.state != Seen::State::kAwaited;
}

// Looks at the members once more, and returns whether each has come, ended or fallen silent.
bool Rendezvous::is_decided(std::vector<Seen>& members) {
  bool all = true;
  for (Seen& seen : members) {
    if (is_gone(seen)) continue;
    if (store_->find(here_key(round_.number + 1, seen.who))) {
      seen.state = Seen::State::kHere;
    } else {
      all = false;
    }
  }
  return all;
}

void Rendezvous::require_quorum(const std::vector<Seen>& members) const {
  Quorum quorum{.members = static_cast<int>(members.size()), .here = 0, .dead = 0, .has_first = false};
  std::string missing;
  for (const Seen& seen : members) {
    if (seen.state == Seen::State::kDead) {
      ++quorum.dead;
      continue;
    }
    if (quorum.here == 0 && missing.empty()) quorum.has_first = seen.state == Seen::State::kHere;
    if (seen.state == Seen::State::kHere) {
      ++quorum.here;
    } else {
      missing += concat(missing.empty() ? "" : ", ", seen.who.rank);
    }
  }
  if (has_quorum(quorum)) return;
  throw RunError(concat("of ", quorum.members, " ranks ", quorum.here, " are left here, ", quorum.dead,
                        " have ended, and nothing is known of rank(s) ", missing,
                        ", which may go on elsewhere: so these do not. Likely the network between hosts is cut, or "
                        "they were stopped; the last checkpoint is whole, and `tandem resume` goes on from it"));
}

// Writes the next round if this process is the first member that has come. The others find it in the store. If several
// processes take themselves for the first, compare_set() lets only one of them succeed.
void Rendezvous::decide(int number, const std::vector<Seen>& members) {
  std::vector<Life> next;
  for (const Seen& seen : members) {
    if (seen.state == Seen::State::kHere) next.push_back(seen.who);
  }
  if (!(next.front() == me_)) return;
  int settled = 0;
  for (const Life& who : waiting(*store_, settled)) next.push_back(who);
  const std::string mine = text_of(next);
  if (store_->compare_set(members_key(number), "", mine) != mine)
    return;  // a member before this one was taken for silent, and has decided meanwhile
  for (const Life& who : next) store_->set(let_in_key(who), "1");
  store_->set("latest", concat(number));
  for (const Seen& seen : members) {
    if (seen.state == Seen::State::kSilent) {
      store_->set(left_key(seen.who), "gave no sign of life for " + seconds_text(options_.silence));
    } else if (seen.state == Seen::State::kAwaited && options_.late == Options::Late::kIsLeft) {
      store_->set(left_key(seen.who), "did not come");
    }
  }
}

std::string Rendezvous::how_lost(const Life& who) {
  // First: a process that was left behind may have been ended by its launcher since.
  if (const std::optional<std::string> how = store_->find(left_key(who))) return *how;
  if (const std::optional<std::string> how = store_->find(end_key(who))) return "died: " + *how;
  return concat("gave no sign of life for ", seconds_text(options_.silence), ", or did not come");
}

std::optional<Round> Rendezvous::enter(int number, std::vector<Life> members) {
  const auto mine = std::find(members.begin(), members.end(), me_);
  if (mine == members.end()) {
    throw LeftBehind(concat("rank ", me_.rank, " was silent for so long (it was stopped, or cut off) that the others (",
                            text_of(members), ", rank.restarts) have gone on without it"));
  }
  Round next{
      .number = number, .members = {}, .mine = static_cast<int>(mine - members.begin()), .lost = {}, .joined = {}};
  for (const Life& who : round_.members) {
    if (!has(members, who)) next.lost.push_back({who, how_lost(who)});
  }
  for (const Life& who : members) {
    if (!has(round_.members, who)) next.joined.push_back(who);
  }
  next.members = std::move(members);
  watch(next.members, number);
  round_ = next;
  return next;
}

// Returns what the heartbeat thread has seen, unless that is old because this process was stopped.
Rendezvous::Watch Rendezvous::members_seen() const {
  Watch seen = watched();
  (void)seen.was_stopped(options_.silence / 2);
  return seen;
}

// Looks at the store again and again until the run is complete or the next round is in the store. The first member that
// came writes the round, when all members are decided or the limits' deadline has passed.
std::optional<Round> Rendezvous::meet(const Limits& limits) {
  const int number = round_.number + 1;
  store_->set(here_key(number, me_), "1");
  for (Watch seen = members_seen();;) {
    if (end_without_the_silent()) return std::nullopt;
    if (const std::optional<std::string> text = store_->find(members_key(number)))
      return enter(number, lives_in(members_key(number), *text));
    const bool decided = is_decided(seen.members), was_stopped = seen.was_stopped(options_.silence / 2);
    if ((decided && !was_stopped) || limits.deadline.expired()) {
      // A member that is alive, but busy for longer than the others wait, is left behind.
      require_quorum(seen.members);
      decide(number, seen.members);
    }
    look_again(limits, concat("meeting the ranks that are left, in round ", number));
  }
}

// Throws RunError when all members have ended or fallen silent: nobody can let this process in.
void Rendezvous::require_anybody(Watch& seen) {
  bool is_anybody = seen.members.empty();
  for (Seen& member : seen.members) is_anybody = !is_gone(member) || is_anybody;
  if (seen.was_stopped(options_.silence / 2)) return;
  if (is_anybody) return;
  throw RunError(concat("rank ", me_.rank, " was started again to join a run, and all ", seen.members.size(),
                        " ranks of it have ended or give no sign of life; the last checkpoint is whole, and `tandem ",
                        "resume` goes on from it"));
}

std::optional<Round> Rendezvous::join(const Limits& limits) {
  store_->set(join_key(store_->add("joiners", 1)), name_of(me_));
  Watch seen;  // the newest round's members
  for (int looked = -1;;) {
    if (is_over(*store_)) return std::nullopt;
    for (const int latest = count_of(*store_, "latest"); looked < latest;) {
      ++looked;
      const std::optional<std::string> text = store_->find(members_key(looked));
      if (!text) continue;
      const std::vector<Life> members = lives_in(members_key(looked), *text);
      if (has(members, me_)) return enter(looked, members);
      seen.members = unseen(members);
    }
    require_anybody(seen);
    if (limits.deadline.expired()) {
      throw DeadlineExceeded(concat("rank ", me_.rank, " was started again to join a run, and nobody let it in: ",
                                    "likely the others have ended, or are in an update that takes longer than that"));
    }
    look_again(limits, "waiting to join");
  }
}

}  // namespace tandem::comm
