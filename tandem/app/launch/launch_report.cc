#include "tandem/app/launch/launch_report.h"

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr int kPeerLost = 3;  // the exit code of a RunError, such as a lost peer
constexpr std::size_t kOthersNamed = 8;

// Ranks that lose a peer end soon after it, often within one turn of poll(); the kind of their end then tells cause
// from effect.
int distance_from_cause(const ProcessEnd& end) {
  if (end.signal != 0) return 0;
  return end.code == kPeerLost ? 2 : 1;
}

std::string others(const std::vector<RankFailure>& failures) {
  std::string text = "  then: ";
  for (std::size_t i = 1; i < failures.size(); ++i) {
    // A launch of hundreds of ranks must not bury the first failure under the names of the others.
    if (i > kOthersNamed) return concat(text, ", and ", failures.size() - i, " more\n");
    text += concat(i == 1 ? "" : ", ", "rank ", failures[i].rank, " (", describe(failures[i].end), ")");
  }
  return text + "\n";
}

}  // namespace

std::string in_seconds(std::chrono::milliseconds span) {
  return fixed(static_cast<double>(span.count()) / 1000, 1) + " s";
}

bool is_likelier_cause(const ProcessEnd& a, const ProcessEnd& b) {
  return distance_from_cause(a) < distance_from_cause(b);
}

std::string describe(const RankFailure& failure) {
  return concat("rank ", failure.rank, failure.end.signal == 0 ? " ended with " : " was ended by ",
                describe(failure.end), " after ", in_seconds(failure.after));
}

std::string failure_report(const std::vector<RankFailure>& failures) {
  const RankFailure& first = failures.front();
  std::string text = concat("tandem: the run failed: ", failures.size() == 1 ? "" : "first, ", describe(first), "\n");
  text += first.last_lines.empty() ? "  it printed nothing\n" : "  its last lines:\n";
  for (const std::string& line : first.last_lines) text += concat("    ", line, "\n");
  return failures.size() == 1 ? text : text + others(failures);
}

}  // namespace tandem::app
