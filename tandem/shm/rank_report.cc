#include "tandem/shm/rank_report.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "tandem/base/clock.h"

namespace tandem::shm {
namespace {

constexpr std::uint32_t kShown = 4;

double age_of(std::int64_t sign) { return seconds_since(Clock::time_point(Clock::duration(sign))); }

}  // namespace

// A rank that still runs overwrites the posting that it made kSlots collectives ago, never one of its last few.
std::string describe_ranks(ControlBlock& control, std::span<const int> names) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  for (int rank = 0; rank < control.size; ++rank) {
    const RankBlock& block = control.rank(rank);
    const std::uint32_t posted = block.posted.count(), finished = block.finished.count();
    text << "\n  rank " << names[static_cast<std::size_t>(rank)] << " (process " << block.process
         << "): last sign of life " << age_of(block.last_sign.load(std::memory_order_relaxed)) << " s ago, finished "
         << finished << " collectives, began last";
    const char* separator = " ";
    for (std::uint32_t ticket = posted - std::min(posted, kShown); ticket < posted; ++ticket) {
      text << std::exchange(separator, ", ") << '#' << ticket << ' ' << describe(block.posting(ticket));
    }
    if (posted == 0) text << " none";
  }
  return std::move(text).str();
}

}  // namespace tandem::shm
