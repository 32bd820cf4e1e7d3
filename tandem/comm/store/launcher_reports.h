// comm/store/launcher_reports.h: the exchange between a launcher and ranks that survive each other's death
// (comm/store/rendezvous.h), through the store. The launcher reports at once that a process has ended; the ranks report
// which process they have left behind and for how long a stopped one may be left alone.
//
// Threads, blocking and errors: those of Store::find() and Store::set().
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// One process of a rank. A process that replaces a dead one is another life of the same rank.
struct Life {
  int rank = 0;      // the launcher's number of the rank
  int restarts = 0;  // how often this rank alone was started again

  bool operator==(const Life&) const = default;
};

/// The rendezvous' part of a run's store. `store` has none of the prefixes of open_store().
[[nodiscard]] std::unique_ptr<Store> rendezvous_part(Store& store, const std::string& run_id, int restart_count);

/// A launcher reports that a process has ended; `how` is "SIGKILL" or "exit code 3", say.
void report_end(Store& part, const Life& who, const std::string& how);

/// Whether the others have gone on without this process, since it gave no heartbeat or did not come to a meeting. A
/// launcher may end the process if it still runs: no other process will ever wait for it again.
[[nodiscard]] bool is_left_behind(Store& part, const Life& who);

/// How long a launcher leaves a process alone that is stopped (SIGSTOP): the deadline of the run, if no other process
/// would miss the stopped one, since it was not let in yet or the run is complete. Nothing for a member of a run that
/// goes on, whose heartbeats the others watch, and nothing where ranks do not use a rendezvous.
[[nodiscard]] std::optional<std::chrono::milliseconds> patience_with_stopped(Store& part, const Life& who);

/// The deadline after which the ranks of the run take a rank without heartbeats for lost; nothing where ranks do not
/// use a rendezvous.
[[nodiscard]] std::optional<std::chrono::milliseconds> deadline_of_run(Store& part);

// --- the keys of that part, for this file and comm/store/rendezvous.cc ---

inline constexpr const char* kBegunKey = "begun";        // set since round 0
inline constexpr const char* kOverKey = "over";          // set when the run is complete
inline constexpr const char* kDeadlineKey = "deadline";  // Rendezvous::Options::deadline, in ms

[[nodiscard]] inline std::string name_of(const Life& life) { return concat(life.rank, ".", life.restarts); }
/// The value: how a process ended, as its launcher reports.
[[nodiscard]] inline std::string end_key(const Life& who) { return "ended/" + name_of(who); }
/// The value: why the others have gone on without a process.
[[nodiscard]] inline std::string left_key(const Life& who) { return "left/" + name_of(who); }
/// Set if a process is, or was, a member of a round.
[[nodiscard]] inline std::string let_in_key(const Life& who) { return "in/" + name_of(who); }

}  // namespace tandem::comm
