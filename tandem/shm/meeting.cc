#include "tandem/shm/meeting.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/cores.h"
#include "tandem/shm/lifeline_watch.h"
#include "tandem/shm/socket.h"

namespace tandem::shm {
namespace {

// Two builds with different control blocks or messages have different versions, and refuse to meet.
constexpr std::uint64_t kVersion = 0x7461'6e64'656d'0001 + (sizeof(RankBlock) << 16) + sizeof(ControlBlock);

// How a rank introduces itself.
struct Hello {
  std::uint64_t version = kVersion;
  std::int32_t rank = 0, size = 0, process = 0;
  cpu_set_t cores{};
  double quota = 0;
};

// Rank 0's answer. It comes with the region and all lifelines, or says why the group does not come about.
struct Answer {
  std::array<char, 1000> refusal{};
};

template <typename Message>
std::span<const std::byte> bytes_of(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  return std::as_bytes(std::span(&message, 1));
}
template <typename Message>
std::span<std::byte> room_of(Message& message) {
  return std::as_writable_bytes(std::span(&message, 1));
}

// The name of a rank in messages: its number where no names are given.
int name_of(const MeetingOptions& options, int rank) {
  const bool is_named = rank >= 0 && static_cast<std::size_t>(rank) < options.names.size();
  return is_named ? options.names[static_cast<std::size_t>(rank)] : rank;
}

std::string socket_name(const MeetingOptions& options) { return concat("tandem/", options.key); }

Hello hello_of(const MeetingOptions& options) {
  Hello hello{.rank = options.rank, .size = options.size, .process = ::getpid()};
  ::sched_getaffinity(0, sizeof(hello.cores), &hello.cores);
  hello.quota = usable_cores().quota;
  return hello;
}

void introduce(const Hello& hello, Region& region) {
  RankBlock& block = region.control().rank(hello.rank);
  block.process = hello.process;
  block.cores = hello.cores;
  block.quota = hello.quota;
}

// A connection to rank 0, and the rank at its other end once that has said who it is.
struct Guest {
  Descriptor socket, lifeline;
  int rank = 0;  // 0 until then
};

// Rank 0's side of the meeting. One thread serves all connections, in the order in which they can be read. The first
// fault of any rank ends the meeting for all: refuse() tells them why.
class Host {
 public:
  explicit Host(const MeetingOptions& options)
      : options_(options),
        region_(Region::create(options.size)),
        listener_(listen_at(socket_name(options), options.size)) {
    introduce(hello_of(options_), *region_);
  }

  Meeting gather() {
    try {
      while (!missing().empty()) serve_next();
    } catch (const RunError& error) {
      for (const Guest& guest : guests_) refuse(guest, error.what());
      throw;
    }
    return share();
  }

 private:
  // Waits for the listener and all guests at once, and deals with the first that can be read: a new connection, the
  // introduction of a guest, or the end of one.
  void serve_next() {
    std::vector<int> descriptors{listener_.get()};
    for (const Guest& guest : guests_) descriptors.push_back(guest.socket.get());
    const std::size_t ready = await_readable(
        descriptors, options_.limits, concat("rank ", missing(), " of ", options_.size, " at ", socket_name(options_)));
    if (ready == 0) {
      Guest guest{.socket = accept_from(listener_), .lifeline = {}};
      if (guest.socket.is_open()) guests_.push_back(std::move(guest));
      return;
    }
    const auto guest = guests_.begin() + static_cast<std::ptrdiff_t>(ready) - 1;
    Hello hello;
    Received received = receive(guest->socket, room_of(hello));
    if (guest->rank != 0) {
      throw PeerLost(guest->rank, concat("host group ", options_.key, ": rank ", name_of(options_, guest->rank),
                                         " ended before all ranks were there; missing: ", missing()));
    }
    if (!received.whole || received.descriptors.size() != 1) {
      guests_.erase(guest);  // the process ended before it said anything, or is no rank of this group
      return;
    }
    guest->lifeline = std::move(received.descriptors.front());
    admit(hello, *guest);
  }

  // Checks an introduction. A fault is an error for the whole group, since its ranks do not fit together.
  void admit(const Hello& hello, Guest& guest) {
    std::string fault;
    if (hello.version != kVersion) {
      fault = "it is another build of tandem: start all ranks from one";
    } else if (hello.size != options_.size) {
      fault = concat("it says that there are ", hello.size, " ranks, and rank 0 that there are ", options_.size);
    } else if (hello.rank < 1 || hello.rank >= options_.size) {
      fault = concat("ranks are 0 .. ", options_.size - 1);
    } else if (guest_of(hello.rank) != nullptr) {
      fault = concat("process ", region_->control().rank(hello.rank).process, " came as that rank already");
    }
    if (!fault.empty()) {
      throw RunError(concat("host group ", options_.key, ": rank ", name_of(options_, hello.rank), " (process ",
                            hello.process, "): ", fault));
    }
    introduce(hello, *region_);
    guest.rank = hello.rank;
  }

  // Sends the region and all lifelines, in the order of the ranks, to every guest.
  Meeting share() {
    Lifeline lifeline = make_lifeline();
    std::vector<int> descriptors{region_->descriptor(), lifeline.others.get()};
    for (int rank = 1; rank < options_.size; ++rank) descriptors.push_back(guest_of(rank)->lifeline.get());
    // A guest that has hung up meanwhile gets no answer; the group notices by its lifeline.
    std::erase_if(guests_, [](const Guest& guest) { return guest.rank == 0; });
    for (const Guest& guest : guests_) (void)send(guest.socket, bytes_of(Answer{}), descriptors);
    Meeting meeting{
        .rank = 0, .region = region_, .own_lifeline = std::move(lifeline.own), .lifelines = {}, .names = {}};
    meeting.lifelines.resize(static_cast<std::size_t>(options_.size));
    for (Guest& guest : guests_) meeting.lifelines[static_cast<std::size_t>(guest.rank)] = std::move(guest.lifeline);
    return meeting;
  }

  static void refuse(const Guest& guest, const std::string& why) {
    Answer answer;
    std::copy_n(why.begin(), std::min(why.size(), answer.refusal.size() - 1), answer.refusal.begin());
    (void)send(guest.socket, bytes_of(answer), {});
  }

  Guest* guest_of(int rank) {
    const auto guest = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& g) { return g.rank == rank; });
    return guest == guests_.end() ? nullptr : &*guest;
  }
  [[nodiscard]] std::string missing() {
    std::string ranks;
    for (int rank = 1; rank < options_.size; ++rank) {
      if (guest_of(rank) == nullptr) ranks += concat(ranks.empty() ? "" : ", ", name_of(options_, rank));
    }
    return ranks;
  }

  const MeetingOptions& options_;
  const std::shared_ptr<Region> region_;
  const Descriptor listener_;
  std::vector<Guest> guests_;
};

// The side of every other rank.
Meeting join(const MeetingOptions& options) {
  const Descriptor socket = connect_to(socket_name(options), options.limits);
  Lifeline lifeline = make_lifeline();
  const std::array<int, 1> others_end{lifeline.others.get()};
  if (!send(socket, bytes_of(hello_of(options)), others_end))
    throw PeerLost(0, concat("rank ", name_of(options, 0), " ended before the host group met"));
  lifeline.others.close();
  const std::array<int, 1> waits{socket.get()};
  await_readable(waits, options.limits,
                 concat("rank ", name_of(options, 0), " to say that all ", options.size, " ranks are there"));
  Answer answer;
  Received received = receive(socket, room_of(answer));
  if (received.whole && answer.refusal.front() != 0) throw RunError(answer.refusal.data());
  if (!received.whole || received.descriptors.size() != static_cast<std::size_t>(options.size) + 1) {
    throw PeerLost(0, concat("rank ", name_of(options, 0), " ended before all ", options.size,
                             " ranks of the host group were there"));
  }
  Meeting meeting{.rank = options.rank,
                  .region = Region::open(std::move(received.descriptors.front())),
                  .own_lifeline = std::move(lifeline.own),
                  .lifelines = {},
                  .names = {}};
  received.descriptors.erase(received.descriptors.begin());
  meeting.lifelines = std::move(received.descriptors);
  meeting.lifelines[static_cast<std::size_t>(options.rank)].close();
  return meeting;
}

void check(const MeetingOptions& options) {
  std::vector<std::string> faults;
  if (options.size < 1 || options.size > kMostRanks) {
    faults.push_back(concat("a host group has 1 .. ", kMostRanks, " ranks, not ", options.size));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    faults.push_back(concat("rank ", options.rank, " of a host group of ", options.size));
  }
  if (options.key.empty() || options.key.size() > 90) {
    faults.push_back(concat("the key '", options.key, "' of a host group must have 1 .. 90 bytes"));
  }
  if (!options.names.empty() && std::ssize(options.names) != options.size) {
    faults.push_back(concat(options.names.size(), " names for a host group of ", options.size));
  }
  if (!faults.empty()) throw ConfigError(faults);
}

}  // namespace

Meeting meet(const MeetingOptions& options) {
  check(options);
  Meeting meeting = options.rank == 0 ? Host(options).gather() : join(options);
  for (int rank = 0; rank < options.size; ++rank) meeting.names.push_back(name_of(options, rank));
  return meeting;
}

}  // namespace tandem::shm
