#include "tandem/shm/lifeline_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::shm {
namespace {

Descriptor make_eventfd() {
  Descriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.is_open()) throw RunError(concat("host group: eventfd: ", std::system_category().message(errno)));
  return made;
}

}  // namespace

LifelineWatch::LifelineWatch(std::vector<Descriptor> lifelines, std::function<void(int)> on_end)
    : lifelines_(std::move(lifelines)),
      on_end_(std::move(on_end)),
      stopped_(make_eventfd()),
      worker_("lifelines", [this](const std::stop_token& stop) { watch(stop); }) {}

void LifelineWatch::watch(const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { (void)::eventfd_write(stopped_.get(), 1); });
  std::vector<pollfd> waits;
  for (const Descriptor& lifeline : lifelines_) waits.push_back({lifeline.get(), POLLIN, 0});  // -1 is passed over
  waits.push_back({stopped_.get(), POLLIN, 0});
  while (!stop.stop_requested()) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t peer = 0; peer < lifelines_.size(); ++peer) {
      if (waits[peer].fd < 0 || waits[peer].revents == 0) continue;
      waits[peer].fd = -1;
      on_end_(static_cast<int>(peer));
    }
  }
}

}  // namespace tandem::shm
