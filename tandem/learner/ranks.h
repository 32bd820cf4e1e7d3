// learner/ranks.h: the ranks of a run, seen from one: what a training program exchanges with the others between the
// steps of its replicas.
//
//     const comm::World world = comm::open_world(comm::launcher_environment(), {});
//     learner::Ranks ranks(world.group);                     // or Ranks() for a single process
//     ReplicaTeam team(ranks.place(devices, shards), options, build, ranks);
//
// Threads: one at a time, and none while a ReplicaTeam over these ranks runs; abort() from any. Blocking: every
// operation but abort() waits for all ranks until the patience ends. Errors: those of comm::Group.
// Ownership: shares the group; copies are the same ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/comm/group.h"
#include "tandem/concurrency/progress_board.h"
#include "tandem/sync/replica.h"

namespace tandem::learner {

/// Appends a struct to numbers for Ranks::gather(), in place of an index for each member. Its bytes travel as they are:
/// `T` is trivially copyable and as large as some doubles. All ranks must run the same build, so the layout of `T` is
/// the same on all of them.
template <typename T>
void append_struct(const T& its, std::vector<double>& numbers) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(double) == 0);
  numbers.resize(numbers.size() + sizeof(T) / sizeof(double));
  std::memcpy(numbers.data() + numbers.size() - sizeof(T) / sizeof(double), &its, sizeof(T));
}
/// Reads what append_struct() wrote from the front of `numbers`, which then begins behind it. Throws InvariantError
/// when they are too few.
template <typename T>
[[nodiscard]] T take_struct(std::span<const double>& numbers) {
  TANDEM_CHECK(numbers.size_bytes() >= sizeof(T), numbers.size(), " numbers left");
  T its;
  std::memcpy(static_cast<void*>(&its), numbers.data(), sizeof(T));
  constexpr std::size_t kNumbers = sizeof(T) / sizeof(double);  // NOLINT(bugprone-sizeof-expression): T may be a double
  numbers = numbers.subspan(kNumbers);
  return its;
}

class Ranks {
 public:
  /// A single process. Its operations exchange nothing and never wait.
  Ranks();
  /// `group`: this rank's member of the group of all ranks. `description`: of them, for the log. `patience` bounds each
  /// single exchange, not their sum.
  explicit Ranks(std::shared_ptr<comm::Group> group, std::string description = "",
                 Clock::duration patience = std::chrono::minutes(5));

  /// How a board of all ranks is opened (comm/world_board.h); they all call it. `units`: of the whole run; `mine`:
  /// those that this rank posts; `news`: the time between two messages of a host.
  using OpenBoard =
      std::function<ProgressBoard(int units, Range mine, std::chrono::milliseconds news, const Limits& limits)>;
  /// Returns these ranks with boards.
  [[nodiscard]] Ranks with_boards(const OpenBoard& open_board) const { return with(&Ranks::open_board_, open_board); }
  /// Returns these ranks with another patience: how long they wait for each other. The original keeps its own.
  [[nodiscard]] Ranks with_patience(Clock::duration patience) const { return with(&Ranks::patience_, patience); }
  /// Returns these ranks as those of a run that has `all` ranks when none is missing. Used when ranks were lost and the
  /// others go on without them.
  [[nodiscard]] Ranks out_of(int all) const { return with(&Ranks::all_, all); }

  [[nodiscard]] int rank() const { return group_->rank(); }
  [[nodiscard]] int size() const { return group_->size(); }
  /// The ranks of the run when none is missing: size(), unless out_of() said more. Ranks beyond size() are missing.
  [[nodiscard]] int size_of_run() const { return std::max(size(), all_); }
  /// Rank 0, which writes what a run leaves behind.
  [[nodiscard]] bool leads() const { return rank() == 0; }
  [[nodiscard]] const std::shared_ptr<comm::Group>& group() const { return group_; }
  [[nodiscard]] const std::string& description() const { return description_; }

  /// The placements of this rank's replicas; see sync::place_replicas().
  [[nodiscard]] std::vector<sync::Placement> place(const std::vector<c10::Device>& devices, int shards) const;

  /// Returns the numbers of every rank, in the order of the ranks; lengths may differ.
  [[nodiscard]] std::vector<std::vector<double>> gather(const std::vector<double>& mine) const;
  /// Gathers into `all`, whose memory is used again.
  void gather(const std::vector<double>& mine, std::vector<std::vector<double>>& all) const;
  /// Bytes travel unchanged; the lengths may differ here, too.
  [[nodiscard]] std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) const;
  /// The root's bytes; what others give is not looked at.
  [[nodiscard]] std::vector<std::byte> from(int root, std::span<const std::byte> roots) const;
  /// Returns the leader's bytes on every rank.
  [[nodiscard]] std::vector<std::byte> from_leader(std::span<const std::byte> leaders) const {
    return from(0, leaders);
  }

  /// A progress board of all ranks, each posting for the units `mine` of it. Throws ConfigError when there are several
  /// ranks that have no boards. `news`: from one to the next that hosts send each other.
  [[nodiscard]] ProgressBoard open_board(int units, Range mine,
                                         std::chrono::milliseconds news = std::chrono::milliseconds(5)) const;

  /// Returns these ranks with losses: `lost` gives a token that is requested when one of them is given up: it has died,
  /// or was silent for too long. Asked again for each ReplicaTeam, from any thread.
  [[nodiscard]] Ranks with_losses(const std::function<std::stop_token()>& lost) const {
    return with(&Ranks::lost_, lost);
  }
  /// That token: what waits for a rank by other means than the group ends with it. Never requested without.
  [[nodiscard]] std::stop_token lost() const { return lost_ ? lost_() : std::stop_token(); }

  /// Ends the waits of all ranks, now and later, with the reason. May be called from any thread, and does not wait.
  void abort(const std::string& why) const { group_->abort(why); }

 private:
  // These ranks with another value of one member. Copies a handful of pointers; the group behind them stays the same.
  template <typename T>
  [[nodiscard]] Ranks with(T Ranks::*member, const T& value) const {
    Ranks ranks = *this;
    ranks.*member = value;
    return ranks;
  }
  // The deadline of an operation that begins now.
  [[nodiscard]] Limits limits() const { return {.deadline = Deadline::after(patience_), .stop = {}}; }

  std::shared_ptr<comm::Group> group_;
  std::string description_;
  Clock::duration patience_;
  // Empty until with_boards(), and not needed by a single process.
  OpenBoard open_board_;
  // The number of ranks that out_of() was told; 0 before.
  int all_ = 0;
  std::function<std::stop_token()> lost_;
};

}  // namespace tandem::learner
