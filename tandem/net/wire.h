// net/wire.h: carries bytes between one member of a group and all others. Each pair of members has two connections, one
// for messages and one for payloads, so that a payload that nobody waits for yet holds up no message.
//
// A transfer is a send or a receive that was started; it is waited for later. What is sent on a channel arrives in the
// receives of that channel, one by one in the order in which both were started. The calling thread moves what the
// socket takes or has at once; a thread of the wire moves the rest.
//
// Threads: any. Ownership: the memory of a transfer must live until it is done, or until cut() has returned. Blocking:
// only WireTransfer::wait(). Errors: RunError, which says how the connection broke, of wait() and of later calls.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/stream.h"

namespace tandem::net {

enum class Channel { kMessages, kPayloads };
inline constexpr int kChannels = 2;

class WireTransfer {
 public:
  /// Returns true when all bytes are sent or received, and false when the transfer was aborted before. Throws RunError
  /// when the connection broke, and DeadlineExceeded.
  [[nodiscard]] bool wait(const Deadline& deadline);
  /// Ends the waits for it, present and later ones. Its bytes may still travel.
  void abort() { settle(State::kAborted, ""); }

 private:
  friend class Wire;
  enum class State { kUnderWay, kDone, kAborted, kBroken };
  // Only the first call counts.
  void settle(State state, const std::string& how);

  Mutex mutex_;
  CondVar changed_;
  State state_ TANDEM_GUARDED_BY(mutex_) = State::kUnderWay;
  std::string how_ TANDEM_GUARDED_BY(mutex_);
};

class Wire {
 public:
  using Transfer = std::shared_ptr<WireTransfer>;
  /// A pair's connections, by Channel; none is open for this member itself.
  struct Ends {
    Stream messages{}, payloads{};
  };

  /// `peers`: by rank. Throws RunError when the system has no descriptor to give.
  explicit Wire(std::vector<Ends> peers);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Starts to send `bytes`, which are not zero.
  [[nodiscard]] Transfer send(int peer, const void* from, std::size_t bytes, Channel channel);
  /// Starts to receive. A payload has exactly `room` bytes, a message at most so many; another one breaks the
  /// connection.
  [[nodiscard]] Transfer receive(int peer, void* to, std::size_t room, Channel channel);
  /// Closes the connections. No other call may run at the same time or follow.
  void cut() noexcept;

 private:
  struct Line;
  [[nodiscard]] Line& line(int peer, Channel channel);
  void move_all(const std::stop_token& stop);

  Descriptor events_, wake_;  // an epoll and an eventfd
  std::vector<std::unique_ptr<Line>> lines_;
  std::unique_ptr<Worker> mover_;
};

}  // namespace tandem::net
