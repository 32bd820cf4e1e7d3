// comm/links/peer_links.h: one member's links to all other members of a network group: announcements, payloads, and the
// reason why the links were closed. Internal. All bytes that come from peers come in here: messages in on_message(),
// payloads in receive().
//
// A collective has four steps: announce() it; await_all(): wait until all members have announced the same; send() and
// receive() payloads; finish(). Collectives are numbered from 0 and take each step in the order of their numbers. The
// next one may be announced, and pass payloads, before one is finished.
//
// Threads: announce() to finish() and take_leave() belong to one thread, the sending thread; ask() to one thread at a
// time; the rest may be called from any. One thread for each peer waits for that peer's messages. Blocking: await_all()
// and wait(), until the links are closed: by close(), by a peer's message, or because a peer is gone. Errors: the
// failure that closed the links. Only the first failure counts, and every later call throws it.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/comm/links/linked_member.h"
#include "tandem/comm/links/peer_message.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/wire.h"

namespace tandem::comm {

/// A payload on its way from or to a peer.
struct Transfer {
  int peer = 0;
  net::Wire::Transfer work;
};

class PeerLinks {
 public:
  /// Called once, by the thread that closes the links, with the failure that closed them, or with an empty text when
  /// this member leaves.
  using OnClose = std::function<void(const std::string& failure)>;
  /// Called when a peer asks this member (Group::on_question()), by the thread that waits for that peer's messages.
  using OnQuestion = std::function<void()>;
  /// `ends` are the connections to all members, and `names` their names, by rank. Starts the threads that wait for
  /// messages.
  PeerLinks(std::vector<net::Wire::Ends> ends, int rank, std::vector<MemberName> names, OnClose on_close,
            OnQuestion on_question);
  /// Waits for no peer. The memory of all transfers must live until the destructor has returned.
  ~PeerLinks() { end(); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(receivers_.size()); }
  /// The rank in the run of a member, for messages.
  [[nodiscard]] int name(int rank) const { return names_[static_cast<std::size_t>(rank)].rank; }

  static constexpr const char* kInOrder = "left the group";
  /// The most collectives that may be announced and not finished.
  static constexpr std::uint64_t kAtOnce = 2;
  /// Tells all other members which collective this member begins, and returns the collective's number. `bytes` of
  /// `payload`, at most kInlinePayload, travel in the same message.
  std::uint64_t announce(const Announcement& announcement, const void* payload, std::size_t bytes);
  /// Whether all members have announced the same by now.
  [[nodiscard]] bool have_all_announced(std::uint64_t number) const;
  /// Returns when all members have announced the same. Closes the links when they have announced different collectives.
  void await_all(std::uint64_t number);
  /// The announcement of `rank` for a collective that await_all() has waited for; valid until finish().
  [[nodiscard]] const PeerMessage& message_of(std::uint64_t number, int rank) const {
    return rank == rank_ ? announced(number).outgoing : *announced(number).heard[static_cast<std::size_t>(rank)];
  }
  /// Starts a transfer. A peer receives this member's transfers in the order in which they were sent. Both sides give
  /// the same size, which is not zero.
  [[nodiscard]] Transfer send(std::uint64_t number, int peer, const void* from, std::size_t bytes);
  [[nodiscard]] Transfer receive(std::uint64_t number, int peer, void* to, std::size_t bytes);
  /// Returns when the transfer is complete.
  void wait(const Transfer& transfer);
  /// Waits until this member's announcement is on its way, so that the others can finish the collective even if this
  /// member dies now.
  void finish(std::uint64_t number);

  /// Asks the peers that the collective in progress waits for (Group::on_question()). Does not wait.
  void ask();

  /// Tells the other members what closed the links, or that this member leaves. Waits at most a fraction of a second.
  void take_leave();

  /// Closes the links of all members with a failure, unless they are closed. Returns whether this call closed them.
  bool close(shm::Cause cause, const std::string& why) { return close({Ending::kFailed, cause, rank_, rank_, why}); }
  /// Closes this member's links without a failure: this member leaves the group. `why`: what others say of it that
  /// still need it. Returns whether the links were open.
  bool leave(const std::string& why = kInOrder) {
    return close({Ending::kLeft, shm::Cause::kAborted, rank_, rank_, why});
  }
  /// Whether nothing has closed the links.
  [[nodiscard]] bool is_open() const {
    const MutexLock lock(mutex_);
    return !closing_;
  }
  /// Throws the failure that closed the links: RunError, PeerLost, DeadlineExceeded or GroupAborted.
  [[noreturn]] void throw_closed() const;
  /// Describes the collective in progress: "all_reduce of 8 x Float #3: rank 0 waited for rank 2".
  [[nodiscard]] std::string waiting() const;
  /// The peers that the collective in progress waits for now.
  [[nodiscard]] std::vector<int> waiting_for() const {
    const MutexLock lock(mutex_);
    return missing();
  }

 private:
  enum class Ending { kLeft, kFailed };
  // The first reason for which the links were closed.
  struct Closing {
    Ending ending{};
    shm::Cause cause{};
    int by = 0, lost = 0;
    std::string why;
  };
  // The receive of a peer's next message, and the thread that waits for it.
  struct Receiver {
    net::Wire::Transfer work;
    std::unique_ptr<PeerMessage> message;
    std::unique_ptr<Worker> listener;
  };
  // A collective's announcements: this member's, with the sends of it, and those received from the others, by rank.
  struct Announced {
    PeerMessage outgoing{};
    std::vector<Transfer> announcing;
    std::vector<std::unique_ptr<PeerMessage>> heard;
  };
  // The step that a collective has reached, and its transfers, which close() aborts.
  struct Progress {
    enum class Phase { kIdle, kAnnounced, kTransfers } phase = Phase::kIdle;
    std::vector<net::Wire::Transfer> in_flight;
  };
  using Phase = Progress::Phase;

  // Two collectives may be in progress, so what belongs to one lies at its number modulo kAtOnce.

  PeerRecord& record(int rank) TANDEM_REQUIRES(mutex_) { return records_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const PeerRecord& record(int rank) const TANDEM_REQUIRES(mutex_) {
    return records_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Announced& announced(std::uint64_t number) { return in_progress_[number % kAtOnce]; }
  [[nodiscard]] const Announced& announced(std::uint64_t number) const { return in_progress_[number % kAtOnce]; }
  Progress& progress(std::uint64_t number) TANDEM_REQUIRES(mutex_) { return progress_[number % kAtOnce]; }
  [[nodiscard]] const Progress& progress(std::uint64_t number) const TANDEM_REQUIRES(mutex_) {
    return progress_[number % kAtOnce];
  }

  // Ends all threads and cuts the connections.
  void end() noexcept;
  // Runs on a thread for each peer, until the links are closed or the peer is gone.
  void listen(int peer);
  // Starts to receive the peer's next message.
  net::Wire::Transfer receive_message(int peer);
  void on_message(int peer, std::unique_ptr<PeerMessage> message);
  // A connection broke; `what` says how.
  void on_hang_up(int peer, const std::string& what);
  // Close the links: because a peer is gone, and for any reason.
  void lose(int peer, const std::string& what);
  bool close(Closing closing);
  [[nodiscard]] Transfer admit(std::uint64_t number, int peer, const std::function<net::Wire::Transfer()>& start);
  [[noreturn]] void await_verdict(int peer, const std::string& what);
  // As waiting_for().
  [[nodiscard]] std::vector<int> missing() const TANDEM_REQUIRES(mutex_);
  // The peers that have not announced the earliest collective for which await_all() has not returned.
  [[nodiscard]] std::vector<int> missing_announcements() const TANDEM_REQUIRES(mutex_);
  // The failure that closed the links, followed by one line for each member (describe(PeerRecord)).
  [[nodiscard]] std::string why_closed() const TANDEM_REQUIRES(mutex_);

  net::Wire wire_;
  const int rank_;
  const std::vector<MemberName> names_;
  std::vector<int> peers_;  // all ranks but this one
  const OnClose on_close_;
  const OnQuestion on_question_;
  PeerMessage question_{};                      // the same one for all peers
  std::array<Announced, kAtOnce> in_progress_;  // this and what follows belong to the sending thread
  std::uint64_t announced_ = 0;                 // the number of the next collective
  PeerMessage farewell_{};                      // the last message, with what closed the links
  std::vector<net::Wire::Transfer> farewells_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<PeerRecord> records_ TANDEM_GUARDED_BY(mutex_);
  std::uint64_t number_ TANDEM_GUARDED_BY(mutex_) = 0;  // the collective in progress, or the next one
  std::array<Progress, kAtOnce> progress_ TANDEM_GUARDED_BY(mutex_);
  int transferring_ TANDEM_GUARDED_BY(mutex_) = -1;  // the peer that wait() waits for; -1: none
  std::optional<Closing> closing_ TANDEM_GUARDED_BY(mutex_);
  std::vector<net::Wire::Transfer> questions_ TANDEM_GUARDED_BY(mutex_);
  std::vector<Receiver> receivers_;  // `work` is guarded by mutex_, the rest belongs to the listeners
};

}  // namespace tandem::comm
