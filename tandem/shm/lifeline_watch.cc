#include "tandem/shm/lifeline_watch.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/wake_event.h"

namespace tandem::shm {
namespace {

// Takes all calls that have come. Returns false when all other ranks are gone: nobody waits for an answer then.
bool take_calls(const Descriptor& own) {
  std::array<char, 64> calls{};
  ssize_t taken = 0;
  do {
    taken = ::recv(own.get(), calls.data(), calls.size(), MSG_DONTWAIT);
  } while (taken > 0 || (taken < 0 && errno == EINTR));
  return taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

Lifeline make_lifeline() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    throw RunError(concat("host group: socketpair: ", std::system_category().message(errno)));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void call(const Descriptor& others) {
  constexpr char kCall = '?';
  (void)::send(others.get(), &kCall, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

LifelineWatch::LifelineWatch(Descriptor own, std::vector<Descriptor> peers, std::function<void(int)> on_end,
                             std::function<void()> on_call)
    : own_(std::move(own)),
      peers_(std::move(peers)),
      on_end_(std::move(on_end)),
      on_call_(std::move(on_call)),
      stopped_(make_wake_event("host group")),
      worker_("lifelines", [this](const std::stop_token& stop) { watch(stop); }) {}

void LifelineWatch::hang_up() const { (void)::shutdown(own_.get(), SHUT_RDWR); }

// Sleeps on the peers' lifelines, on its own and on the eventfd that a stop request writes to. A lifeline that has hung
// up is taken out of the list, or poll() would return at once for ever.
void LifelineWatch::watch(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { wake(stopped_); });
  std::vector<pollfd> waits;
  for (const Descriptor& peer : peers_) waits.push_back({peer.get(), POLLIN, 0});  // poll() passes -1 over
  const std::size_t own = waits.size();
  waits.push_back({own_.get(), POLLIN, 0});
  waits.push_back({stopped_.get(), POLLIN, 0});
  while (!stop.stop_requested()) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      if (waits[peer].fd < 0 || waits[peer].revents == 0) continue;
      waits[peer].fd = -1;
      on_end_(static_cast<int>(peer));
    }
    if (waits[own].fd < 0 || waits[own].revents == 0) continue;
    // An own end that can be read but holds no call has been hung up.
    if (take_calls(own_)) {
      on_call_();
    } else {
      waits[own].fd = -1;  // all other ranks are gone
    }
  }
}

}  // namespace tandem::shm
