#include "tandem/comm/world_board.h"

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/failure_watch.h"
#include "tandem/comm/group.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/store_value.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/worker.h"
#include "tandem/shm/meeting.h"

namespace tandem::comm {
namespace {

using Cell = ProgressBoard::Cell;

constexpr std::int64_t kMostUnits = std::numeric_limits<int>::max();

// The units that a rank posts for, as it announces them to the others. One line of text, in the order of write().
struct Units {
  int all = 0;
  Range mine;
  std::string token;  // random name of the shared memory, if this rank is the first of its host

  [[nodiscard]] std::string write() const { return concat(all, " ", mine.begin, " ", mine.end, " ", token); }
  static Units read(const std::string& key, const std::string& text) {
    const std::vector<std::string> parts = parts_in(key, text, ' ', 4);
    const auto unit = [&](std::size_t part) { return static_cast<int>(number_in(key, parts[part], 0, kMostUnits)); };
    return {.all = unit(0), .mine = {.begin = unit(1), .end = unit(2)}, .token = parts[3]};
  }
};

// All ranks check the announcements of all, so that all of them fail alike.
void require_each_unit_once(const std::vector<Units>& ranks, int units) {
  std::vector<int> of(static_cast<std::size_t>(units), -1);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& [all, mine, token] = ranks[rank];
    if (all != units || mine.begin < 0 || mine.end > units) {
      throw ConfigError(concat("progress board: rank ", rank, " posts for units ", mine.begin, " to ", mine.end, " of ",
                               all, ", and this rank knows ", units, " in all"));
    }
    for (int unit = mine.begin; unit < mine.end; ++unit) {
      int& its = of[static_cast<std::size_t>(unit)];
      if (its >= 0)
        throw ConfigError(concat("progress board: ranks ", its, " and ", rank, " both post for unit ", unit));
      its = static_cast<int>(rank);
    }
  }
}

// Returns the cells of all units, in memory that all ranks of this host have mapped.
std::shared_ptr<Cell[]> memory_of_host(const World& world, const std::string& token, int units, const Limits& limits) {
  const Host& host = world.hosts.host(world.hosts.host_of(world.rank));
  if (host.ranks.size() == 1) return std::shared_ptr<Cell[]>(new Cell[static_cast<std::size_t>(units)]());
  const shm::Meeting meeting = shm::meet({.rank = world.local_rank,
                                          .size = static_cast<int>(host.ranks.size()),
                                          .key = "board/" + token,
                                          .limits = limits,
                                          .names = host.ranks});
  const std::shared_ptr<shm::Region> region = meeting.region;
  region->back(region->arena_begin(0), static_cast<std::uint64_t>(units) * sizeof(Cell));
  return {region, reinterpret_cast<Cell*>(region->at(region->arena_begin(0)))};
}

// Owned by all copies of a board: the memory and, on a host's first rank of several hosts, the thread that updates it.
struct Kept {
  std::shared_ptr<Cell[]> memory;
  std::unique_ptr<Store> store;
  std::optional<Worker> relay;  // last: it uses the others
};

// Copies the cells of this host's units to the store, under a key for each host, and those of the other hosts from it.
// Ends when the store is lost.
void relay(Store& store, std::size_t mine, ProgressBoard board, const std::vector<std::vector<int>>& units_of_host,
           const BoardOptions& options, const std::stop_token& stop) try {
  const auto key = [](std::size_t host) { return concat("host/", host); };
  for (std::string published; !stop.stop_requested(); pause(options.every, {.stop = stop})) {
    std::string text;  // this host's cells, as numbers with spaces between them
    for (const int unit : units_of_host[mine]) text += concat(board.cell(unit), " ");
    if (text != published) store.set(key(mine), published = text);
    for (std::size_t host = 0; host < units_of_host.size(); ++host) {
      if (host == mine) continue;
      // A text that is not there, is too short or is no number leaves cells as they are.
      std::istringstream cells = reader_of(store.find(key(host)).value_or(""));
      std::uint64_t cell = 0;
      for (const int unit : units_of_host[host]) {
        if (cells >> cell) board.set_cell(unit, cell);
      }
    }
  }
} catch (const RunError& error) {
  if (options.on_loss) options.on_loss(error.what());
}

// Requests a stop when the caller's is requested or a failure closes the group. Who opens a board waits in the store
// and at a meeting, where the end of another rank is not seen; its group sees it.
class EndOfGroup {
 public:
  EndOfGroup(std::shared_ptr<Group> group, const std::stop_token& stop)
      : group_(std::move(group)), callers_(stop, [this] { either_.request_stop(); }) {
    if (!group_) return;
    closing_ = group_->on_close([this](const std::string&) {
      has_come_ = true;
      either_.request_stop();
    });
  }
  EndOfGroup(const EndOfGroup&) = delete;
  EndOfGroup& operator=(const EndOfGroup&) = delete;

  [[nodiscard]] std::stop_token token() const { return either_.get_token(); }
  [[nodiscard]] bool has_come() const { return has_come_; }

 private:
  const std::shared_ptr<Group> group_;
  std::stop_source either_;
  std::atomic<bool> has_come_{false};
  std::stop_callback<std::function<void()>> callers_;
  Listening closing_;
};

// Plan: exchange which rank posts for which units; map memory for all cells, shared with the ranks of this host; on the
// first rank of a host, start the relay to the other hosts. The returned board keeps memory and relay alive.
ProgressBoard open_with_others(World& world, int units, Range mine, const Limits& limits, BoardOptions options) {
  const std::string number = concat("board/", world.boards++);
  const Units its{.all = units, .mine = mine, .token = new_token()};
  std::vector<Units> ranks;
  for (const std::string& text : exchange(*world.store, number, world.rank, world.size, its.write(), limits))
    ranks.push_back(Units::read(number, text));
  require_each_unit_once(ranks, units);

  const Host& host = world.hosts.host(world.hosts.host_of(world.rank));
  const std::string& token = ranks[static_cast<std::size_t>(host.ranks.front())].token;
  auto kept = std::make_shared<Kept>();
  kept->memory = memory_of_host(world, token, units, limits);
  if (world.hosts.size() > 1 && world.local_rank == 0) {
    std::vector<std::vector<int>> units_of_host(static_cast<std::size_t>(world.hosts.size()));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::vector<int>& theirs = units_of_host[static_cast<std::size_t>(world.hosts.host_of(static_cast<int>(rank)))];
      for (int unit = ranks[rank].mine.begin; unit < ranks[rank].mine.end; ++unit) theirs.push_back(unit);
    }
    kept->store = world.store->part(number);
    kept->relay.emplace("board",
                        [&store = *kept->store, mine = static_cast<std::size_t>(world.hosts.host_of(world.rank)),
                         board = ProgressBoard(kept->memory, units), units_of_host = std::move(units_of_host),
                         options = std::move(options)](const std::stop_token& stop) {
                          relay(store, mine, board, units_of_host, options, stop);
                        });
  }
  return {std::shared_ptr<Cell[]>(kept, kept->memory.get()), units};
}

}  // namespace

ProgressBoard open_board(World& world, int units, Range mine, const Limits& limits, BoardOptions options) {
  if (world.size == 1) return ProgressBoard(units);
  const std::unique_ptr<Store> words = world.store->part("words");
  const FailureWatch watch([&] { return failure_of_another(*words, world.rank); }, limits.stop);
  const EndOfGroup end(world.group, watch.token());
  Limits until_end = limits;
  until_end.stop = end.token();
  try {
    return open_with_others(world, units, mine, until_end, std::move(options));
  } catch (const GroupAborted&) {
    if (end.has_come()) world.group->barrier(limits);  // throws the error that says what closed the group
    if (!limits.stop.stop_requested()) watch.rethrow();
    throw;
  }
}

}  // namespace tandem::comm
