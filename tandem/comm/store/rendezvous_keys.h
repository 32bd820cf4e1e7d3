// comm/rendezvous_keys.h: under which keys of its part of the store ranks that meet anew (comm/rendezvous.h) and their
// launcher (comm/launcher_word.h) write to each other.
//
// Pure functions.
#pragma once
#include <string>

#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_word.h"

namespace tandem::comm {

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
