#include "tandem/comm/links/peer_links.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFarewell = 100ms;  // for the peers to take this member's last message
constexpr Clock::duration kVerdict = 1s;                // for the message that says why a connection broke

using net::Channel;
using Started = net::Wire::Transfer;

// Does something for which the peer may be gone. The thread that waits for the peer's messages reports that.
template <typename Action>
void try_to(const Action& action) {
  try {
    action();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace

PeerLinks::PeerLinks(std::vector<net::Wire::Ends> ends, int rank, std::vector<MemberName> names, OnClose on_close,
                     OnQuestion on_question)
    : wire_(std::move(ends)),
      rank_(rank),
      names_(std::move(names)),
      on_close_(std::move(on_close)),
      on_question_(std::move(on_question)),
      records_(names_.size()),
      receivers_(names_.size()) {
  for (Announced& each : in_progress_) each.heard.resize(names_.size());
  {
    const MutexLock lock(mutex_);
    for (int each = 0; each < size(); ++each) {
      record(each).name = concat("rank ", name(each), " (", names_[static_cast<std::size_t>(each)].process, ")");
      if (each != rank_) peers_.push_back(each);
    }
  }
  try {
    for (const int peer : peers_) {
      receivers_[static_cast<std::size_t>(peer)].listener =
          std::make_unique<Worker>(concat("hear-rank-", peer), [this, peer](const std::stop_token&) { listen(peer); });
    }
  } catch (...) {
    end();  // or the threads that have started would wait for ever
    throw;
  }
}

// Order: close the links, so that all waits end; join the threads; drop all work objects; cut the connections. Until
// the connections are cut, peers may still write to the memory of messages and transfers, which is why it lives so
// long.
void PeerLinks::end() noexcept {
  leave();
  for (Receiver& receiver : receivers_) receiver.listener.reset();
  for (Receiver& receiver : receivers_) receiver.work.reset();
  {
    const MutexLock lock(mutex_);
    progress_ = {};
    questions_.clear();
  }
  for (Announced& each : in_progress_) each.announcing.clear();
  farewells_.clear();
  wire_.cut();
}

// --- announcements ---------------------------------------------------------------------------------------------------

std::uint64_t PeerLinks::announce(const Announcement& announcement, const void* payload, std::size_t bytes) {
  TANDEM_CHECK(bytes <= kInlinePayload, bytes, " bytes in a message");
  const std::uint64_t number = announced_++;
  {
    const MutexLock lock(mutex_);
    TANDEM_CHECK(number - number_ < kAtOnce, "collective #", number, " is announced before #", number_, " has ended");
    progress(number).phase = Phase::kAnnounced;
    record(rank_).begins(number, announcement);
  }
  PeerMessage& outgoing = announced(number).outgoing;
  outgoing.kind = PeerMessage::Kind::kCollective;
  outgoing.number = number;
  outgoing.announcement = announcement;
  outgoing.bytes = static_cast<std::uint32_t>(bytes);
  if (bytes > 0) std::memcpy(outgoing.payload.data(), payload, bytes);
  for (const int peer : peers_) {
    announced(number).announcing.push_back(
        admit(number, peer, [&] { return wire_.send(peer, &outgoing, outgoing.used(), Channel::kMessages); }));
  }
  return number;
}

bool PeerLinks::have_all_announced(std::uint64_t number) const {
  const MutexLock lock(mutex_);
  const auto has_announced = [&](const PeerRecord& peer) {
    return &peer == &record(rank_) || std::ranges::any_of(peer.inbox, [&](const auto& message) {
      return message->number == number && agree(message->announcement, announced(number).outgoing.announcement);
    });
  };
  return std::ranges::all_of(records_, has_announced);
}

void PeerLinks::await_all(std::uint64_t number) {
  int left = -1;
  {
    const MutexLock lock(mutex_);
    if (progress(number).phase == Phase::kTransfers) return;
    const auto ready = [&]() TANDEM_REQUIRES(mutex_) {
      const std::vector<int> peers = missing_announcements();
      const auto gone =
          std::ranges::find_if(peers, [&](int peer) TANDEM_REQUIRES(mutex_) { return record(peer).has_left; });
      if (gone != peers.end()) left = *gone;
      return peers.empty() || left >= 0 || closing_;
    };
    changed_.wait(mutex_, std::stop_token(), ready);
    if (left < 0 && !closing_) {
      for (const int peer : peers_) {
        announced(number).heard[static_cast<std::size_t>(peer)] = std::move(record(peer).inbox.front());
        record(peer).inbox.pop_front();
      }
      progress(number).phase = Phase::kTransfers;
    }
  }
  if (left >= 0) lose(left, "");
  if (!is_open()) throw_closed();
  const PeerMessage& mine = message_of(number, rank_);
  for (int peer = 0; peer < size(); ++peer) {
    const PeerMessage& theirs = message_of(number, peer);
    TANDEM_CHECK(theirs.number == number, "collective #", theirs.number, " of rank ", peer, " at #", number);
    if (agree(mine.announcement, theirs.announcement)) continue;
    close(shm::Cause::kMismatch,
          concat("collective #", number, " differs: rank ", name(rank_), " came with ", describe(mine.announcement),
                 ", rank ", name(peer), " with ", describe(theirs.announcement),
                 "; the ranks took different branches, or their models differ"));
    throw_closed();
  }
}

void PeerLinks::finish(std::uint64_t number) {
  for (const Transfer& transfer : announced(number).announcing) wait(transfer);
  announced(number).announcing.clear();
  const MutexLock lock(mutex_);
  TANDEM_CHECK(number == number_, "collective #", number, " is finished before #", number_);
  progress(number) = {};
  ++number_;
}

// The sends of questions are kept until the end: a peer that is stopped does not take them.
void PeerLinks::ask() {
  question_.kind = PeerMessage::Kind::kQuestion;
  for (const int peer : waiting_for()) {
    try_to([&] {
      Started work = wire_.send(peer, &question_, question_.used(), Channel::kMessages);
      const MutexLock lock(mutex_);
      if (closing_) work->abort();
      questions_.push_back(std::move(work));
    });
  }
}

// --- transfers -------------------------------------------------------------------------------------------------------

Transfer PeerLinks::send(std::uint64_t number, int peer, const void* from, std::size_t bytes) {
  return admit(number, peer, [&] { return wire_.send(peer, from, bytes, Channel::kPayloads); });
}

Transfer PeerLinks::receive(std::uint64_t number, int peer, void* to, std::size_t bytes) {
  return admit(number, peer, [&] { return wire_.receive(peer, to, bytes, Channel::kPayloads); });
}

// Starts a transfer unless the links are closed. `start` runs without the lock, so the links may be closed meanwhile;
// the transfer is aborted then, as close() did with the others.
Transfer PeerLinks::admit(std::uint64_t number, int peer, const std::function<Started()>& start) {
  if (!is_open()) throw_closed();
  Started work;
  try {
    work = start();
  } catch (const std::exception& error) {
    await_verdict(peer, error.what());
  }
  const MutexLock lock(mutex_);
  if (closing_) work->abort();  // it was started after close() had aborted all others
  progress(number).in_flight.push_back(work);
  return {peer, std::move(work)};
}

void PeerLinks::wait(const Transfer& transfer) {
  {
    const MutexLock lock(mutex_);
    transferring_ = transfer.peer;
  }
  bool done = false;
  try {
    done = transfer.work->wait(Deadline::infinite());
  } catch (const std::exception& error) {
    await_verdict(transfer.peer, error.what());
  }
  if (!done) throw_closed();
  const MutexLock lock(mutex_);
  transferring_ = -1;
}

// A transfer failed since the peer is gone. The peer may have sent a message that says why: gives the thread that waits
// for its messages time to read it.
void PeerLinks::await_verdict(int peer, const std::string& what) {
  {
    const MutexLock lock(mutex_);
    const auto known = [&]() TANDEM_REQUIRES(mutex_) { return closing_ || record(peer).has_left; };
    changed_.wait(mutex_, Deadline::after(kVerdict), known);
  }
  lose(peer, what);
  throw_closed();
}

// Closes the links because `peer` died or left; `what` says how.
void PeerLinks::lose(int peer, const std::string& what) {
  std::string how;
  {
    const MutexLock lock(mutex_);
    how = concat("; ", record(peer).name,
                 record(peer).has_left ? concat(" ", record(peer).why)
                                       : concat(" died, or the connection to it broke (", what, ")"));
  }
  close({Ending::kFailed, shm::Cause::kLost, rank_, peer, waiting() + how});
}

// --- what peers say --------------------------------------------------------------------------------------------------

// All messages that came before a connection broke are read before the break is noticed.
void PeerLinks::listen(int peer) {
  Receiver& receiver = receivers_[static_cast<std::size_t>(peer)];
  while (is_open()) {
    try {
      if (!receive_message(peer)->wait(Deadline::infinite())) return;
    } catch (const std::exception& error) {
      return on_hang_up(peer, error.what());
    }
    if (!is_sound(*receiver.message, size())) return lose(peer, "it sent what is no message");
    on_message(peer, std::move(receiver.message));
  }
}

Started PeerLinks::receive_message(int peer) {
  Receiver& receiver = receivers_[static_cast<std::size_t>(peer)];
  receiver.message = std::make_unique<PeerMessage>();
  Started work = wire_.receive(peer, receiver.message.get(), sizeof(PeerMessage), Channel::kMessages);
  const MutexLock lock(mutex_);
  if (closing_) work->abort();
  receiver.work = work;
  return work;
}

void PeerLinks::on_message(int peer, std::unique_ptr<PeerMessage> message) {
  if (message->kind == PeerMessage::Kind::kQuestion) return on_question_();
  if (message->kind == PeerMessage::Kind::kFailure) {
    const auto* text = reinterpret_cast<const char*>(message->payload.data());
    (void)close({Ending::kFailed, message->cause, message->by, message->lost, std::string(text, message->bytes)});
    return;
  }
  {
    const MutexLock lock(mutex_);
    if (message->kind == PeerMessage::Kind::kLeave) {
      record(peer).has_left = true;
      const auto* text = reinterpret_cast<const char*>(message->payload.data());
      record(peer).why.assign(text, std::min<std::size_t>(message->bytes, message->payload.size()));
      record(peer).last_sign = Clock::now();
    } else {
      record(peer).begins(message->number, message->announcement);
      record(peer).inbox.push_back(std::move(message));
    }
  }
  changed_.notify_all();
}

// A peer that has left closes its connections; await_all() reports it if a collective still needs it.
void PeerLinks::on_hang_up(int peer, const std::string& what) {
  {
    const MutexLock lock(mutex_);
    if (record(peer).has_left) return;
  }
  lose(peer, what);
}

// --- the end ---------------------------------------------------------------------------------------------------------

// Aborts all transfers, so that all waits of this member end. The peers learn the reason from take_leave(), which the
// sending thread calls after this.
bool PeerLinks::close(Closing closing) {
  std::vector<Started> works;
  std::string failure;
  {
    const MutexLock lock(mutex_);
    if (closing_) return false;
    closing_ = std::move(closing);
    if (closing_->ending == Ending::kFailed) failure = why_closed();
    works = questions_;
    for (const Progress& each : progress_) works.insert(works.end(), each.in_flight.begin(), each.in_flight.end());
    for (const Receiver& receiver : receivers_) works.push_back(receiver.work);
  }
  changed_.notify_all();
  for (const Started& work : works) {
    if (work) work->abort();
  }
  on_close_(failure);
  return true;
}

// Note [A failure is passed on by all who hear of it]
// A peer may notice that this member's connection broke before it reads the message of the member that failed. It
// would take this member for the cause. So this member's last message says what closed the links, whoever closed them.
void PeerLinks::take_leave() {
  leave();
  {
    const MutexLock lock(mutex_);
    farewell_.kind = closing_->ending == Ending::kLeft ? PeerMessage::Kind::kLeave : PeerMessage::Kind::kFailure;
    farewell_.number = number_;
    farewell_.cause = closing_->cause;
    farewell_.by = closing_->by;
    farewell_.lost = closing_->lost;
    auto* text = reinterpret_cast<char*>(farewell_.payload.data());
    farewell_.bytes = static_cast<std::uint32_t>(closing_->why.copy(text, farewell_.payload.size()));
  }
  for (const int peer : peers_)
    try_to([&] { farewells_.push_back(wire_.send(peer, &farewell_, farewell_.used(), Channel::kMessages)); });
  const Deadline deadline = Deadline::after(kFarewell);
  for (const Started& farewell : farewells_) try_to([&] { (void)farewell->wait(deadline); });
}

void PeerLinks::throw_closed() const {
  const MutexLock lock(mutex_);
  const auto by = closing_->by == rank_ ? shm::ClosedBy::kMe : shm::ClosedBy::kAnother;
  shm::throw_closed(closing_->cause, by, closing_->lost, why_closed());
}

std::string PeerLinks::why_closed() const {
  std::string message =
      concat("the network group of ", size(), " ranks was closed by rank ", name(closing_->by), ": ", closing_->why);
  for (const PeerRecord& each : records_) message += concat("\n  ", describe(each));
  return message;
}

std::vector<int> PeerLinks::missing() const {
  const Phase phase = progress(number_).phase;
  if (phase == Phase::kAnnounced) return missing_announcements();
  return phase == Phase::kTransfers && transferring_ >= 0 ? std::vector{transferring_} : std::vector<int>{};
}

std::vector<int> PeerLinks::missing_announcements() const {
  std::vector<int> peers;
  for (const int peer : peers_) {
    if (record(peer).inbox.empty()) peers.push_back(peer);
  }
  return peers;
}

std::string PeerLinks::waiting() const {
  const MutexLock lock(mutex_);
  if (progress(number_).phase == Phase::kIdle)
    return concat("rank ", name(rank_), " had not begun collective #", number_);
  const auto& begun = record(rank_).begun;
  const auto it = std::ranges::find(begun, number_, [](const auto& each) { return each.first; });
  const std::string ranks = joined(missing(), [this](int peer) { return name(peer); });
  return concat(describe(it->second), " #", number_, ": rank ", name(rank_),
                ranks.empty() ? " was at it" : " waited for rank ", ranks);
}

}  // namespace tandem::comm
