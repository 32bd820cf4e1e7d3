#include "tandem/comm/rendezvous.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/census.h"

namespace tandem::comm {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // from one look at the store to the next in a wait

std::string name_of(const Life& life) { return concat(life.rank, ".", life.restarts); }

std::string text_of(const std::vector<Life>& lives) {
  std::string text;
  for (const Life& life : lives) text += concat(text.empty() ? "" : " ", name_of(life));
  return text;
}

std::vector<Life> lives_of(const std::string& text) {
  std::vector<Life> lives;
  std::istringstream in(text);
  char dot = 0;
  for (Life life; in >> life.rank >> dot >> life.restarts;) lives.push_back(life);
  return lives;
}

std::string beat_key(const Life& who) { return "beat/" + name_of(who); }
std::string end_key(const Life& who) { return "ended/" + name_of(who); }
std::string let_in_key(const Life& who) { return "in/" + name_of(who); }
std::string here_key(int round, const Life& who) { return concat("round/", round, "/here/", name_of(who)); }
std::string members_key(int round) { return concat("round/", round, "/members"); }

int count_of(Store& store, const std::string& key) {
  const std::optional<std::string> text = store.find(key);
  return text ? std::stoi(*text) : 0;
}

// Who has asked to be let in, lives, and was not. `settled`: of how many, from the first on, that is known for good.
std::vector<Life> waiting(Store& store, int& settled) {
  std::vector<Life> found;
  const int all = count_of(store, "joiners");
  for (int number = settled + 1; number <= all; ++number) {
    const std::optional<std::string> text = store.find(concat("join/", number));
    if (!text) continue;  // counted, and about to say who it is
    const Life who = lives_of(*text).front();
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

}  // namespace

std::unique_ptr<Store> rendezvous_part(Store& store, const std::string& run_id, int restart_count) {
  return store.part(concat("tandem/", run_id, "/", restart_count, "/rendezvous"));
}

void tell_end(Store& part, const Life& who, const std::string& how) { part.set(end_key(who), how); }

// A member of the round before, as this process sees it while it waits for the next.
struct Rendezvous::Seen {
  enum class State { kAwaited, kHere, kDead, kSilent };

  Life who;
  State state = State::kAwaited;
  std::optional<std::string> beat{};
  Clock::time_point sign = Clock::now();
};

Rendezvous::Rendezvous(const Connect& connect, const Life& me, const Options& options)
    : me_(me),
      options_(options),
      store_(connect()),
      worker_("rendezvous",
              [this, store = std::shared_ptr<Store>(connect())](const std::stop_token& stop) { beat(*store, stop); }) {}

bool Rendezvous::has_begun(Store& part) { return part.find("begun").has_value(); }
bool Rendezvous::is_over(Store& part) { return part.find("over").has_value(); }
void Rendezvous::close() { (void)store_->add("over", 1); }  // answered before anybody sees it, unlike set()

void Rendezvous::begin(std::vector<Life> members) {
  const auto mine = std::find(members.begin(), members.end(), me_);
  TANDEM_CHECK(mine != members.end());
  round_ = {.number = 0, .members = {}, .mine = static_cast<int>(mine - members.begin()), .lost = {}, .joined = {}};
  round_.members = std::move(members);
  watch(round_.members);
  store_->set(members_key(0), text_of(round_.members));  // all of them say the same
  store_->set("begun", "1");
}

void Rendezvous::watch(const std::vector<Life>& members) {
  MutexLock lock(mutex_);
  watched_ = members;
  broken_ = std::stop_source();
}

std::stop_token Rendezvous::broken() const {
  MutexLock lock(mutex_);
  return broken_.get_token();
}

void Rendezvous::look_for_deaths(Store& store) {
  std::vector<Life> members;
  std::stop_source broken;
  {
    MutexLock lock(mutex_);
    members = watched_;
    broken = broken_;
  }
  for (const Life& who : members) {
    if (!broken.stop_requested() && store.find(end_key(who))) broken.request_stop();
  }
}

// Should the store be lost, the training finds that out itself, as soon as it asks.
void Rendezvous::beat(Store& store, const std::stop_token& stop) {
  int settled = 0;
  try {
    while (!stop.stop_requested()) {
      (void)store.add(beat_key(me_), 1);
      waits_.store(!waiting(store, settled).empty(), std::memory_order_relaxed);
      look_for_deaths(store);
      MutexLock lock(mutex_);
      (void)never_.wait(mutex_, stop, Deadline::after(options_.beat), [] { return false; });
    }
  } catch (const RunError&) {
    waits_.store(false, std::memory_order_relaxed);
  }
}

// Looks at a member once more; whether it has ended or fallen silent.
bool Rendezvous::is_gone(Seen& seen) {
  std::optional<std::string> beat = store_->find(beat_key(seen.who));
  if (beat != seen.beat) {
    seen.beat = std::move(beat);
    seen.sign = Clock::now();
  }
  if (store_->find(end_key(seen.who))) {
    seen.state = Seen::State::kDead;
    return true;
  }
  if (seen.who == me_ || Clock::now() - seen.sign < options_.silence) return false;
  seen.state = Seen::State::kSilent;
  return true;
}

// Looks at the members once more; whether each has come, ended or fallen silent.
bool Rendezvous::is_decided(std::vector<Seen>& members) {
  bool all = true;
  for (Seen& seen : members) {
    if (is_gone(seen)) continue;
    if (store_->find(here_key(round_.number + 1, seen.who))) {
      seen.state = Seen::State::kHere;
    } else {
      seen.state = Seen::State::kAwaited;
      all = false;
    }
  }
  return all;
}

void Rendezvous::require_prevalence(const std::vector<Seen>& members) const {
  Census census{.members = static_cast<int>(members.size()), .here = 0, .dead = 0, .has_first = false};
  std::string missing;
  for (const Seen& seen : members) {
    if (seen.state == Seen::State::kDead) {
      ++census.dead;
      continue;
    }
    if (census.here == 0 && missing.empty()) census.has_first = seen.state == Seen::State::kHere;
    if (seen.state == Seen::State::kHere) {
      ++census.here;
    } else {
      missing += concat(missing.empty() ? "" : ", ", seen.who.rank);
    }
  }
  if (prevails(census)) return;
  throw RunError(concat("of ", census.members, " ranks ", census.here, " are left here, ", census.dead,
                        " have ended, and nothing is known of rank(s) ", missing,
                        ", which may go on elsewhere: so these do not. Likely the network between hosts is cut, or "
                        "they were stopped; the last checkpoint is whole, and `tandem resume` goes on from it"));
}

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
    return;  // an earlier first one was not dead after all
  for (const Life& who : next) store_->set(let_in_key(who), "1");
  store_->set("latest", concat(number));
}

std::string Rendezvous::how_lost(const Life& who) {
  if (const std::optional<std::string> how = store_->find(end_key(who))) return "died: " + *how;
  const std::chrono::duration<double> silence = options_.silence;
  return concat("gave no sign of life for ", silence.count(), " s, or did not come");
}

std::optional<Round> Rendezvous::enter(int number, std::vector<Life> members) {
  const auto mine = std::find(members.begin(), members.end(), me_);
  if (mine == members.end()) {
    throw RunError(concat("rank ", me_.rank, " was silent for so long (it was stopped, or cut off) that the others (",
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
  watch(next.members);
  round_ = next;
  return next;
}

void Rendezvous::pause(const Limits& limits, const std::string& doing) {
  if (limits.stop.stop_requested()) throw GroupAborted(concat("stopped while ", doing));
  MutexLock lock(mutex_);
  (void)never_.wait(mutex_, limits.stop, Deadline::after(kLook), [] { return false; });
}

std::optional<Round> Rendezvous::meet(const Limits& limits) {
  const int number = round_.number + 1;
  std::vector<Seen> members;
  for (const Life& who : round_.members) members.push_back({.who = who});
  store_->set(here_key(number, me_), "1");
  while (true) {
    if (is_over(*store_)) return std::nullopt;
    if (const std::optional<std::string> text = store_->find(members_key(number)))
      return enter(number, lives_of(*text));
    // Who lives and is busy for longer than everybody is willing to wait is left behind.
    if (is_decided(members) || limits.deadline.expired()) {
      require_prevalence(members);
      decide(number, members);
    }
    pause(limits, concat("meeting the ranks that are left, in round ", number));
  }
}

void Rendezvous::require_anybody(std::vector<Seen>& members) {
  if (members.empty()) return;
  for (Seen& seen : members) {
    if (!is_gone(seen)) return;
  }
  throw RunError(concat("rank ", me_.rank, " was started again to join a run, and all ", members.size(),
                        " ranks of it have ended or give no sign of life; the last checkpoint is whole, and `tandem ",
                        "resume` goes on from it"));
}

std::optional<Round> Rendezvous::join(const Limits& limits) {
  store_->set(concat("join/", store_->add("joiners", 1)), name_of(me_));
  std::vector<Seen> members;  // of the newest round
  for (int looked = -1;;) {
    if (is_over(*store_)) return std::nullopt;
    for (const int latest = count_of(*store_, "latest"); looked < latest;) {
      ++looked;
      const std::optional<std::string> text = store_->find(members_key(looked));
      if (!text) continue;
      if (has(lives_of(*text), me_)) return enter(looked, lives_of(*text));
      members.clear();
      for (const Life& who : lives_of(*text)) members.push_back({.who = who});
    }
    require_anybody(members);
    if (limits.deadline.expired()) {
      throw DeadlineExceeded(concat("rank ", me_.rank, " was started again to join a run, and nobody let it in: ",
                                    "likely the others have ended, or are in an update that takes longer than that"));
    }
    pause(limits, "waiting to join");
  }
}

}  // namespace tandem::comm
