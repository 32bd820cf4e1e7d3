// comm/store/store_value.h: reads what the members of a run have written into its store: numbers, words, lines, and the
// names of processes.
//
// A run's store holds what members of that run wrote, and still nothing in it is believed: a member may be of another
// version, or broken. What is longer, larger or otherwise than members write it is a RunError that names the key and
// shows the value's beginning. Memory and time are in proportion to the value.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/text.h"

namespace tandem::comm {

/// The most processes that a value lists, and the most that a counter of processes counts.
inline constexpr std::int64_t kMostLives = std::int64_t{1} << 20;

/// One process of a rank. A process that replaces a dead one is another life of the same rank.
struct Life {
  int rank = 0;      // the launcher's number of the rank
  int restarts = 0;  // how often this rank alone was started again

  bool operator==(const Life&) const = default;
};
[[nodiscard]] inline std::string name_of(const Life& life) { return concat(life.rank, ".", life.restarts); }

// Each reads the value `text` of `key`, or a part of it; the key is for the error alone.

/// Throws the RunError of a value that no member writes. `what`: what was expected in its place.
[[noreturn]] void refuse_value(const std::string& key, std::string_view text, const std::string& what);
/// A whole number from `least` to `most`.
[[nodiscard]] std::int64_t number_in(const std::string& key, std::string_view text, std::int64_t least,
                                     std::int64_t most);
/// The parts between separators, as many as `count`. A value ends with its last part.
[[nodiscard]] std::vector<std::string> parts_in(const std::string& key, std::string_view text, char separator,
                                                std::size_t count);
/// Names of processes with a blank between them: at least one, and each once.
[[nodiscard]] std::vector<Life> lives_in(const std::string& key, std::string_view text);

}  // namespace tandem::comm
