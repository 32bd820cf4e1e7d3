// app/launch/rank_lines.h: what a rank prints, cut into whole lines that say whose they are.
//
// Both streams of the rank go through one object, each with its own unfinished line, so that lines of several ranks
// never mix. The last lines are kept, for the report of a failure.
//
// Threads: single-thread.
#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace tandem::app {

enum class Stream { kOut, kErr };

class RankLines {
 public:
  /// Longer lines are cut. The limit is in bytes, without the prefix; the rest of a longer line begins a new one.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
  static constexpr std::size_t kLinesKept = 10;

  explicit RankLines(int rank);

  /// Takes what was read and returns the lines that it completes, each as "[rank] line\n".
  [[nodiscard]] std::string add(Stream stream, std::string_view bytes);
  /// The unfinished last line of the stream, if there is one, as a line.
  [[nodiscard]] std::string finish(Stream stream);

  /// The last lines of both streams, in the order in which they were completed, without prefix.
  [[nodiscard]] const std::deque<std::string>& last() const { return last_; }

 private:
  void complete(std::string& line, std::string& lines);

  std::string prefix_;
  std::array<std::string, 2> unfinished_;
  std::deque<std::string> last_;
};

}  // namespace tandem::app
