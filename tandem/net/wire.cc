#include "tandem/net/wire.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <span>
#include <system_error>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/wake_event.h"

namespace tandem::net {
namespace {

using Size = std::uint64_t;  // precedes the bytes of a transfer

std::string reason_of(int error) { return std::generic_category().message(error); }

bool is_full_or_empty(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

}  // namespace

// --- transfers -------------------------------------------------------------------------------------------------------

bool WireTransfer::wait(const Deadline& deadline) {
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, deadline, [this]() TANDEM_REQUIRES(mutex_) { return state_ != State::kUnderWay; });
  if (state_ == State::kUnderWay) throw DeadlineExceeded("the other end took too long");
  if (state_ == State::kBroken) throw RunError(how_);
  return state_ == State::kDone;
}

void WireTransfer::settle(State state, const std::string& how) {
  {
    const MutexLock lock(mutex_);
    if (state_ != State::kUnderWay) return;
    state_ = state;
    how_ = how;
  }
  changed_.notify_all();
}

// --- lines -----------------------------------------------------------------------------------------------------------

// One connection, with the transfers that it has still to move.
struct Wire::Line {
  struct Out {
    Transfer transfer;
    Size bytes;
    const std::byte* from;
    std::size_t sent = 0;  // of the size and the bytes together
  };
  struct In {
    Transfer transfer;
    std::byte* to;
    std::size_t room;
  };

  Line(Stream taken, Channel of, int epoll) : stream(std::move(taken)), channel(of), events(epoll) {}

  void move_out() TANDEM_REQUIRES(mutex);
  void move_in() TANDEM_REQUIRES(mutex);
  void listen() TANDEM_REQUIRES(mutex);
  void stop_sending(const std::string& how) TANDEM_REQUIRES(mutex);
  void break_off(const std::string& how) TANDEM_REQUIRES(mutex);
  void close_in_order();

  Stream stream;
  const Channel channel;
  const int events;  // the wire's epoll
  Mutex mutex;
  std::deque<Out> sends TANDEM_GUARDED_BY(mutex);
  std::deque<In> receives TANDEM_GUARDED_BY(mutex);
  Size size TANDEM_GUARDED_BY(mutex) = 0;             // of what is being received
  std::size_t received TANDEM_GUARDED_BY(mutex) = 0;  // of the size and the bytes together
  std::uint32_t heard TANDEM_GUARDED_BY(mutex) = 0;   // what is listened for
  bool is_deaf TANDEM_GUARDED_BY(mutex) = false;      // the peer has gone while nothing was to be received
  std::string unsendable TANDEM_GUARDED_BY(mutex);    // why nothing more can be sent; empty while it can
  std::string broken TANDEM_GUARDED_BY(mutex);        // why nothing more can be received; likewise
};

Wire::Wire(std::vector<Ends> peers)
    : events_(::epoll_create1(EPOLL_CLOEXEC)), wake_(make_wake_event("the connections of a group")) {
  if (!events_.is_open()) throw RunError(concat("no descriptor for the connections of a group: ", reason_of(errno)));
  for (Ends& ends : peers) {
    lines_.push_back(std::make_unique<Line>(std::move(ends.messages), Channel::kMessages, events_.get()));
    lines_.push_back(std::make_unique<Line>(std::move(ends.payloads), Channel::kPayloads, events_.get()));
  }
  epoll_event wakes{.events = EPOLLIN, .data = {.ptr = nullptr}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, wake_.get(), &wakes);
  for (const auto& each : lines_) {
    if (!each->stream.is_open()) continue;
    epoll_event none{.events = 0, .data = {.ptr = each.get()}};
    if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, each->stream.number(), &none) != 0)
      throw RunError(concat("cannot listen to the connections of a group: ", reason_of(errno)));
  }
  mover_ = std::make_unique<Worker>("wire", [this](const std::stop_token& stop) { move_all(stop); });
}

Wire::~Wire() { cut(); }

Wire::Line& Wire::line(int peer, Channel channel) {
  Line& found = *lines_.at(static_cast<std::size_t>(kChannels * peer) + (channel == Channel::kPayloads ? 1 : 0));
  TANDEM_CHECK(found.stream.is_open(), "no connection to member ", peer);
  return found;
}

Wire::Transfer Wire::send(int peer, const void* from, std::size_t bytes, Channel channel) {
  TANDEM_CHECK(bytes > 0);
  Line& it = line(peer, channel);
  auto transfer = std::make_shared<WireTransfer>();
  const MutexLock lock(it.mutex);
  if (!it.unsendable.empty()) throw RunError(it.unsendable);
  it.sends.push_back({transfer, bytes, static_cast<const std::byte*>(from)});
  if (it.sends.size() == 1) it.move_out();
  it.listen();
  return transfer;
}

Wire::Transfer Wire::receive(int peer, void* to, std::size_t room, Channel channel) {
  TANDEM_CHECK(room > 0);
  Line& it = line(peer, channel);
  auto transfer = std::make_shared<WireTransfer>();
  const MutexLock lock(it.mutex);
  if (!it.broken.empty()) throw RunError(it.broken);
  it.receives.push_back({transfer, static_cast<std::byte*>(to), room});
  if (it.receives.size() == 1) it.move_in();
  it.listen();
  return transfer;
}

void Wire::cut() noexcept {
  if (mover_ == nullptr) return;
  mover_->request_stop();
  wake(wake_);
  mover_.reset();
  for (const auto& each : lines_) each->close_in_order();
  lines_.clear();
}

// The thread of the wire. A line with nothing to receive is not listened to, but its end is told all the same: then it
// is let alone until somebody receives from it.
void Wire::move_all(const std::stop_token& stop) {
  std::array<epoll_event, 64> events{};
  while (!stop.stop_requested()) {
    const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) throw RunError(concat("epoll_wait: ", reason_of(errno)));
    for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
      auto* const it = static_cast<Line*>(event.data.ptr);
      if (it == nullptr) continue;  // told to stop
      const MutexLock lock(it->mutex);
      const bool has_ended = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
      if (has_ended && it->receives.empty() && it->sends.empty() && !it->is_deaf) {
        it->is_deaf = true;
        ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, it->stream.number(), nullptr);
        continue;
      }
      it->move_out();
      it->move_in();
      it->listen();
    }
  }
}

// Sends until the socket is full. The size and the bytes go together, so that a small message is one packet.
void Wire::Line::move_out() {
  while (!sends.empty()) {
    Line::Out& next = sends.front();
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (next.sent < sizeof(Size)) {
      auto* const head = reinterpret_cast<std::byte*>(&next.bytes);
      parts[count++] = {.iov_base = head + next.sent, .iov_len = sizeof(Size) - next.sent};
    }
    const std::size_t of_bytes = next.sent < sizeof(Size) ? 0 : next.sent - sizeof(Size);
    parts[count++] = {.iov_base = const_cast<std::byte*>(next.from) + of_bytes, .iov_len = next.bytes - of_bytes};
    const ssize_t sent = stream.write(std::span(parts).first(count));
    if (is_full_or_empty(sent)) return;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return stop_sending(reason_of(errno));
    next.sent += static_cast<std::size_t>(sent);
    if (next.sent < sizeof(Size) + next.bytes) continue;
    next.transfer->settle(WireTransfer::State::kDone, "");
    sends.pop_front();
  }
}

// Receives until the socket is empty, or nothing more is to be received.
void Wire::Line::move_in() {
  while (!receives.empty()) {
    const Line::In& next = receives.front();
    const bool is_head = received < sizeof(Size);
    auto* const head = reinterpret_cast<std::byte*>(&size);
    std::byte* const to = is_head ? head + received : next.to + (received - sizeof(Size));
    const std::size_t left = is_head ? sizeof(Size) - received : size + sizeof(Size) - received;
    const ssize_t got = stream.read({to, left});
    if (is_full_or_empty(got)) return;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return break_off(got == 0 ? "the other end hung up" : reason_of(errno));
    received += static_cast<std::size_t>(got);
    if (received == sizeof(Size)) {
      const bool fits = channel == Channel::kPayloads ? size == next.room : size > 0 && size <= next.room;
      if (!fits) {
        return break_off(concat("the other end sent ", size, " bytes, and ", next.room,
                                " were to come: the ranks are of different builds, or took different branches"));
      }
    } else if (received > sizeof(Size) && received == sizeof(Size) + size) {
      received = 0;
      next.transfer->settle(WireTransfer::State::kDone, "");
      receives.pop_front();
    }
  }
}

// Tells epoll what is to be moved; it tells the end of a connection without being asked.
void Wire::Line::listen() {
  if (!broken.empty() || is_deaf) return;
  const std::uint32_t wanted = (receives.empty() ? 0U : EPOLLIN) | (sends.empty() ? 0U : EPOLLOUT);
  if (wanted == std::exchange(heard, wanted)) return;
  epoll_event event{.events = wanted, .data = {.ptr = this}};
  ::epoll_ctl(events, EPOLL_CTL_MOD, stream.number(), &event);
}

// What has come before the peer went is still received: it may say why.
void Wire::Line::stop_sending(const std::string& how) {
  unsendable = how;
  for (const Line::Out& each : sends) each.transfer->settle(WireTransfer::State::kBroken, how);
  sends.clear();
}

void Wire::Line::break_off(const std::string& how) {
  stop_sending(how);
  broken = how;
  if (!is_deaf) ::epoll_ctl(events, EPOLL_CTL_DEL, stream.number(), nullptr);
  is_deaf = true;
  for (const Line::In& each : receives) each.transfer->settle(WireTransfer::State::kBroken, how);
  receives.clear();
}

// A TCP socket that is closed while something is unread drops what is still to be delivered: the last message, say.
void Wire::Line::close_in_order() {
  if (!stream.is_open()) return;
  ::shutdown(stream.number(), SHUT_WR);
  std::array<std::byte, 4096> unread{};
  while (::recv(stream.number(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
}

}  // namespace tandem::net
