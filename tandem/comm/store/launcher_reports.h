// comm/launcher_reports.h: what a launcher and ranks that go on without one another (comm/rendezvous.h) tell each other:
// it knows at once that a process has ended, they know that one is not waited for any more.
//
// Threads: those of the store. Blocking, errors: those of Store::find() and Store::set().
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// One process of a rank: each that takes the rank over after a death is another life.
struct Life {
  int rank = 0;      // as the launcher numbers them
  int restarts = 0;  // of this rank alone

  bool operator==(const Life&) const = default;
};

/// The part of a run's store where its ranks meet. `store`: without the prefixes of open_store().
[[nodiscard]] std::unique_ptr<Store> rendezvous_part(Store& store, const std::string& run_id, int restart_count);

/// A launcher's word that a process of a rank has ended; `how`: "SIGKILL", "exit code 3".
void report_end(Store& part, const Life& who, const std::string& how);

/// Whether the others have gone on without this process, since it was silent or did not come. A launcher that sees it
/// run still may end it: nobody will ever wait for it again.
[[nodiscard]] bool is_left_behind(Store& part, const Life& who);

/// How long a launcher is to leave a process alone that is stopped (SIGSTOP): the deadline of the run, of one that
/// nobody would miss, as it was not let in yet or the run is over. Nothing of a member of a run that goes on, which the
/// others look out for, and where ranks do not meet anew.
[[nodiscard]] std::optional<std::chrono::milliseconds> patience_with_stopped(Store& part, const Life& who);

/// The deadline of the run, after which its ranks take a silent one for lost; nothing where ranks do not meet anew.
[[nodiscard]] std::optional<std::chrono::milliseconds> deadline_of_run(Store& part);

// --- the keys of that part, for this file and comm/store/rendezvous.cc ---

inline constexpr const char* kBegunKey = "begun";        // there since round 0
inline constexpr const char* kOverKey = "over";          // there when the run has ended well
inline constexpr const char* kDeadlineKey = "deadline";  // of a member without a sign of life, in ms

[[nodiscard]] inline std::string name_of(const Life& life) { return concat(life.rank, ".", life.restarts); }
/// How a process ended, by its launcher's word.
[[nodiscard]] inline std::string end_key(const Life& who) { return "ended/" + name_of(who); }
/// Why the others have gone on without it.
[[nodiscard]] inline std::string left_key(const Life& who) { return "left/" + name_of(who); }
/// There when it is, or was, a member of a round.
[[nodiscard]] inline std::string let_in_key(const Life& who) { return "in/" + name_of(who); }

}  // namespace tandem::comm
