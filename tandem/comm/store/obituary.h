// comm/store/obituary.h: what a launcher puts in the place of a rank that ended before it met the others, and that is
// not started again alone: so nobody waits for that rank until a deadline.
//
// Threads, blocking, errors: as Store.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

/// Under what the ranks of a world exchange() who they are.
inline constexpr const char* kIntroduction = "world";
/// How an obituary begins, and no introduction does.
inline constexpr std::string_view kObituary = "ended: ";

/// The rank that ended first, and how, for those that wait for one that had come already.
inline constexpr const char* kFirstToEnd = "first to end";

/// `part`: run_part() of the world's generation. `how` is "SIGKILL", say.
inline void write_obituary(Store& part, int rank, const std::string& how) {
  (void)part.compare_set(concat(kIntroduction, "/", rank), "", concat(kObituary, how));  // nothing if it has come
  (void)part.compare_set(kFirstToEnd, "", concat(rank, " ", how));
}

/// The rank that ended first, and how; nothing if none did.
[[nodiscard]] inline std::optional<std::pair<int, std::string>> first_obituary(Store& part) {
  const std::optional<std::string> text = part.find(kFirstToEnd);
  if (!text) return std::nullopt;
  const std::size_t blank = std::min(text->find(' '), text->size());
  const std::optional<int> rank = parse_number<int>(std::string_view(*text).substr(0, blank));
  if (!rank) throw RunError(concat("'", kFirstToEnd, "' of the run's store is no rank: '", *text, "'"));
  return std::pair(*rank, text->substr(std::min(blank + 1, text->size())));
}

/// How the rank ended that should have brought this introduction; nothing if it did.
[[nodiscard]] inline std::optional<std::string> obituary_in(const std::string& introduction) {
  if (!introduction.starts_with(kObituary)) return std::nullopt;
  return introduction.substr(kObituary.size());
}

}  // namespace tandem::comm
