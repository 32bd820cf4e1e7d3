// comm/store/obituary.h: what a launcher puts in the place of a rank that ended before it met the others, and that is
// not started again: so nobody waits for that rank until a deadline.
//
// Threads, blocking, errors: as Store.
#pragma once
#include <optional>
#include <string>

#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// Under what the ranks of a world exchange() who they are.
inline constexpr const char* kIntroduction = "world";
/// How an obituary begins, and no introduction does.
inline constexpr std::string_view kObituary = "ended: ";

/// `part`: run_part() of the world's generation. Changes nothing if the rank has come. `how` is "SIGKILL", say.
inline void write_obituary(Store& part, int rank, const std::string& how) {
  (void)part.compare_set(concat(kIntroduction, "/", rank), "", concat(kObituary, how));
}

/// How the rank ended that should have brought this introduction; nothing if it did.
[[nodiscard]] inline std::optional<std::string> obituary_in(const std::string& introduction) {
  if (!introduction.starts_with(kObituary)) return std::nullopt;
  return introduction.substr(kObituary.size());
}

}  // namespace tandem::comm
