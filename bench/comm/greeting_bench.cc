// Question: what does it cost at start-up that both ends of a connection prove that they belong to the run?
//
// A member comes to another one's door: by way of net::Door and net::dial(), whose ends prove it, and by the sockets
// alone. Two ranks of a run make four such connections: to the store, a second one to it where survivors go on, and two
// between them.
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/timing.h"
#include "tandem/net/door.h"

namespace tandem::bench {
namespace {

using net::Place, net::Reach;

Limits in_time() { return {.deadline = Deadline::after(std::chrono::seconds(20)), .stop = {}}; }

// Seconds until a member that came is let in, each time.
template <typename Come>
Samples times_of(int count, const Come& come) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point begin = Clock::now();
    come();
    seconds.push_back(seconds_since(begin));
  }
  return Samples(std::move(seconds));
}

Samples greeted(Reach reach, net::Traffic traffic, int count) {
  const std::string secret = reach == Reach::kEverywhere ? "of a run between hosts" : "";
  net::Door door({.access = {reach, traffic}, .secret = secret, .name = "the bench's door"});
  Place place = door.place();
  if (reach == Reach::kEverywhere) place.addresses = {"127.0.0.1"};
  return times_of(count, [&] {
    const std::jthread caller([&] { (void)net::dial(place, secret, 1, "the bench's door", in_time()); });
    if (door.accept(in_time()).caller != 1) throw std::runtime_error("somebody else came");
  });
}

Samples bare(Reach reach, int count) {
  const std::string name = "tandem/bench/bare";
  const Descriptor listener = reach == Reach::kThisHost ? net::listen_locally(name) : net::listen_to_all(0);
  const int port = reach == Reach::kThisHost ? 0 : net::port_of(listener);
  return times_of(count, [&] {
    const std::jthread caller([&] {
      const Descriptor socket = reach == Reach::kThisHost ? net::start_locally(name) : net::start_to("127.0.0.1", port);
      char word = 0;
      while (::recv(socket.get(), &word, 1, 0) != 1) continue;
    });
    Descriptor socket;
    while (!socket.is_open()) socket = Descriptor(::accept(listener.get(), nullptr, nullptr));
    (void)::send(socket.get(), "T", 1, MSG_NOSIGNAL);
  });
}

int run(Size size) {
  const int count = size == Size::kSmoke ? 3 : 2000;
  struct Case {
    std::string name;
    Reach reach;
    net::Traffic traffic;
  };
  for (const auto& [name, reach, traffic] :
       {Case{"one connection within the host", Reach::kThisHost, net::Traffic::kOpen},
        Case{"one connection over TCP", Reach::kEverywhere, net::Traffic::kOpen},
        Case{"one encrypted", Reach::kEverywhere, net::Traffic::kEncrypted}}) {
    // In turn, a few at a time, so that both see the same machine.
    std::vector<double> of_greeted, of_bare;
    for (int turn = 0; turn < 10; ++turn) {
      of_greeted.push_back(greeted(reach, traffic, count / 10 + 1).quantile(0.5));
      of_bare.push_back(bare(reach, count / 10 + 1).quantile(0.5));
    }
    constexpr double kMicro = 1e6;
    for (const auto& [contender, seconds] : {std::pair("tandem", of_greeted), std::pair("no greeting", of_bare)}) {
      const Samples all(seconds);
      print({.case_name = name,
             .contender = contender,
             .unit = "us",
             .value = all.quantile(0.5) * kMicro,
             .p99 = all.quantile(1.0) * kMicro,
             .samples = all.size()});
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
