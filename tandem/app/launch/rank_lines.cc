#include "tandem/app/launch/rank_lines.h"

#include <utility>

#include "tandem/base/text.h"

namespace tandem::app {

RankLines::RankLines(int rank) : prefix_(concat("[", rank, "] ")) {}

std::string RankLines::add(Stream stream, std::string_view bytes) {
  std::string& line = unfinished_[static_cast<std::size_t>(stream)];
  std::string lines;
  while (!bytes.empty()) {
    // Searches no further than the line may grow, so a rank that never ends a line cannot fill the memory.
    const std::size_t room = kLongestLine - line.size();
    const std::size_t end = bytes.substr(0, room).find('\n');
    const std::size_t size = std::min(end, std::min(room, bytes.size()));
    line.append(bytes.substr(0, size));
    bytes.remove_prefix(end == std::string_view::npos ? size : size + 1);
    if (end != std::string_view::npos || line.size() == kLongestLine) complete(line, lines);
  }
  return lines;
}

// A process that ends without a line feed gets one, so that the next line of another rank begins a line.
std::string RankLines::finish(Stream stream) {
  std::string& line = unfinished_[static_cast<std::size_t>(stream)];
  std::string lines;
  if (!line.empty()) complete(line, lines);
  return lines;
}

void RankLines::complete(std::string& line, std::string& lines) {
  lines += prefix_;
  lines += line;
  lines += '\n';
  last_.push_back(std::exchange(line, {}));
  if (last_.size() > kLinesKept) last_.pop_front();
}

}  // namespace tandem::app
