// comm/peer_links.h: one member's links to all others of a network group: announcements, payloads, and why it ended.
// Internal.
//
// A collective is: announce, wait until all have announced the same, pass payloads, finish. They are numbered from 0
// and do each of these in the order of their numbers; the next may be announced, and pass payloads, before one is
// finished.
//
// Threads: announce() to finish() and take_leave() belong to one thread, which sends all there is to send; the rest
// from any; ask() by one at a time. A thread a peer waits for that peer's messages. Blocking: await_all() and wait(),
// until the links are closed: by close(), by a peer's message, or because a peer is gone. Errors: whatever closed them;
// the first reason stays, and every later call throws it.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/comm/links/linked_member.h"
#include "tandem/comm/links/peer_record.h"
#include "tandem/comm/links/peer_wire.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

/// A payload on its way from or to a peer.
struct Transfer {
  int peer = 0;
  C10dWork work;
};

class PeerLinks {
 public:
  /// `on_close` is called once, by the thread that closes the links, with the failure that closed them, or with nothing
  /// when this member leaves.
  using OnClose = std::function<void(const std::string& failure)>;
  /// Called by the thread that listens to a peer when that peer asks this member.
  using OnQuestion = std::function<void()>;
  PeerLinks(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<MemberName> names, OnClose on_close,
            OnQuestion on_question);
  /// Waits for no peer. What transfers read and wrote must live until here.
  ~PeerLinks() { end(); }
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(receivers_.size()); }
  /// What messages call a rank.
  [[nodiscard]] int name(int rank) const { return names_[static_cast<std::size_t>(rank)].rank; }

  /// Of collectives that are announced and not finished.
  static constexpr std::uint64_t kAtOnce = 2;
  /// Tells all others which collective this member begins, and returns its number; `bytes` of `payload`, up to
  /// kInlinePayload, go along.
  std::uint64_t announce(const Announcement& announcement, const void* payload, std::size_t bytes);
  /// Whether all have announced the same by now.
  [[nodiscard]] bool have_all_announced(std::uint64_t number) const;
  /// Returns when all have announced the same. Closes the links when they have not.
  void await_all(std::uint64_t number);
  /// What `rank` announced for a collective that await_all() has waited for. Until finish().
  [[nodiscard]] const PeerMessage& message_of(std::uint64_t number, int rank) const {
    return *announced(number).messages[static_cast<std::size_t>(rank)];
  }
  /// Starts a transfer. Those between two members are received in the order in which they were sent; both sides name
  /// the same size, which is not zero.
  [[nodiscard]] Transfer send(std::uint64_t number, int peer, const void* from, std::size_t bytes);
  [[nodiscard]] Transfer receive(std::uint64_t number, int peer, void* to, std::size_t bytes);
  void wait(const Transfer& transfer);
  /// Waits until this member's announcement is on its way: should it die now, the others can still finish theirs.
  void finish(std::uint64_t number);

  /// Asks those that the collective in progress waits for. Waits for nobody.
  void ask();

  /// Tells the others why this member closed the links, or that it leaves. Waits for them a fraction of a second.
  void take_leave();

  /// Ends it for all members. The first reason stays.
  void close(shm::Cause cause, const std::string& why) { close({Ending::kFailed, cause, rank_, rank_, why}); }
  /// The same without a failure: this member needs nothing more.
  void leave() { close({Ending::kLeft, shm::Cause::kAborted, rank_, rank_, "it left the group"}); }
  [[nodiscard]] bool is_open() const {
    const MutexLock lock(mutex_);
    return !closing_;
  }
  [[noreturn]] void throw_closed() const;
  /// "all_reduce of 8 x Float #3: rank 0 waited for rank 2", of the collective that is now in progress.
  [[nodiscard]] std::string waiting() const;
  /// Whom the collective in progress waits for now.
  [[nodiscard]] std::vector<int> waiting_for() const {
    const MutexLock lock(mutex_);
    return missing();
  }

 private:
  enum class Ending { kLeft, kFailed };
  struct Closing {
    Ending ending{};
    shm::Cause cause{};
    int by = 0, lost = 0;
    std::string why;
  };
  // The receives that are posted for a peer's messages, and the thread that waits for them.
  struct Receiver {
    std::array<C10dWork, 2> works;
    std::array<std::unique_ptr<PeerMessage>, 2> messages;
    std::unique_ptr<Worker> listener;
  };
  // What is said of a collective.
  struct Announced {
    PeerMessage outgoing{};
    std::vector<Transfer> announcing;
    std::vector<std::unique_ptr<PeerMessage>> heard;
    std::vector<const PeerMessage*> messages;
  };
  // How far it is.
  struct Progress {
    enum class Phase { kIdle, kAnnounced, kTransfers } phase = Phase::kIdle;
    std::vector<C10dWork> in_flight;
  };
  using Phase = Progress::Phase;

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

  void end() noexcept;
  void listen(int peer);
  void post_receive(int peer, std::size_t slot, std::string& failure);
  void on_message(int peer, std::unique_ptr<PeerMessage> message);
  void on_hang_up(int peer, const std::string& what);
  void lose(int peer, const std::string& what);
  void close(Closing closing);
  void take_announcements(std::uint64_t number);
  void compare_announcements(std::uint64_t number);
  [[nodiscard]] Transfer admit(std::uint64_t number, int peer, const std::function<C10dWork()>& start);
  [[noreturn]] void await_verdict(int peer, const std::string& what);
  [[nodiscard]] std::vector<int> missing() const TANDEM_REQUIRES(mutex_);
  /// Who has not announced the earliest collective that await_all() was not done for.
  [[nodiscard]] std::vector<int> missing_announcements() const TANDEM_REQUIRES(mutex_);
  [[nodiscard]] std::string why_closed() const TANDEM_REQUIRES(mutex_);

  PeerWire wire_;
  const int rank_;
  const std::vector<MemberName> names_;
  std::vector<int> peers_;  // all ranks but this one
  const OnClose on_close_;
  const OnQuestion on_question_;
  PeerMessage question_{};
  std::array<Announced, kAtOnce> in_progress_;  // this and what follows belong to the sending thread
  std::uint64_t announced_ = 0;
  PeerMessage farewell_{};
  std::vector<C10dWork> farewells_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<PeerRecord> records_ TANDEM_GUARDED_BY(mutex_);
  std::uint64_t number_ TANDEM_GUARDED_BY(mutex_) = 0;  // of the collective in progress, or of the next one
  std::array<Progress, kAtOnce> progress_ TANDEM_GUARDED_BY(mutex_);
  int transferring_ TANDEM_GUARDED_BY(mutex_) = -1;  // the peer that is waited for in kTransfers
  std::optional<Closing> closing_ TANDEM_GUARDED_BY(mutex_);
  std::vector<C10dWork> questions_ TANDEM_GUARDED_BY(mutex_);
  std::vector<Receiver> receivers_;  // the works are guarded by mutex_, the rest belongs to the listeners
};

}  // namespace tandem::comm
