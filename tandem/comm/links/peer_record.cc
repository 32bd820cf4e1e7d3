#include "tandem/comm/links/peer_record.h"

#include <iomanip>
#include <sstream>

namespace tandem::comm {

std::string describe(const PeerRecord& record) {
  const std::chrono::duration<double> age = Clock::now() - record.last_sign;
  std::ostringstream text;
  text << record.name << ": last sign of life " << std::fixed << std::setprecision(1) << age.count() << " s ago, "
       << (record.has_left ? "left, " : "") << "began last";
  const char* separator = " ";
  for (const auto& [number, announcement] : record.begun) {
    text << std::exchange(separator, ", ") << '#' << number << ' ' << describe(announcement);
  }
  if (record.begun.empty()) text << " none";
  return std::move(text).str();
}

}  // namespace tandem::comm
