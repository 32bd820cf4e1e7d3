#include "tandem/app/run/profile.h"

#include <algorithm>
#include <iomanip>
#include <locale>
#include <sstream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using Seconds = std::chrono::duration<double>;

// Spans nest: "own" is a span's time without the spans inside it. The table sorts by own time, since that is what a
// change of the code can save.
double seconds(Clock::duration span) { return Seconds(span).count(); }

void add_line(std::ostringstream& out, const std::string& thread, const char* name, Clock::duration own,
              Clock::duration elapsed) {
  out << std::left << std::setw(16) << thread << std::setw(22) << name << std::right << std::fixed << std::setw(9)
      << std::setprecision(3) << seconds(own) << std::setw(8) << std::setprecision(1)
      << 100 * seconds(own) / seconds(elapsed) << '%';
}

void add_thread(std::ostringstream& out, const ThreadTrace& thread, Clock::duration elapsed) {
  std::vector<SpanTotal> totals = thread.totals;
  std::stable_sort(totals.begin(), totals.end(), [](const auto& a, const auto& b) { return a.own > b.own; });
  // Own times do not overlap, so what is left of the elapsed time is outside of every span.
  Clock::duration rest = elapsed;
  for (const SpanTotal& total : totals) {
    rest -= total.own;
    add_line(out, thread.name, total.name, total.own, elapsed);
    out << std::setw(9) << std::setprecision(3) << seconds(total.total) << std::setw(10) << total.count << std::setw(12)
        << std::setprecision(1) << 1e6 * seconds(total.total) / static_cast<double>(total.count) << std::setw(12)
        << std::setprecision(3) << 1e3 * seconds(total.longest) << '\n';
  }
  // Threads are read after the clock, so the rest can be slightly negative.
  add_line(out, thread.name, "(none of these)", std::max(rest, Clock::duration::zero()), elapsed);
  out << '\n';
}

}  // namespace

std::string profile_table(std::span<const ThreadTrace> threads, Clock::duration elapsed) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::left << std::setw(16) << "thread" << std::setw(22) << "phase" << std::right << std::setw(9) << "own s"
      << std::setw(9) << "share" << std::setw(9) << "all s" << std::setw(10) << "times" << std::setw(12) << "mean us"
      << std::setw(12) << "longest ms" << '\n';
  for (const ThreadTrace& thread : threads) add_thread(out, thread, elapsed);
  return out.str();
}

std::string Profile::finish() const {
  const Clock::duration elapsed = Clock::now() - trace_.begin();
  const std::vector<ThreadTrace> threads = trace_.threads();
  const std::string table = profile_table(threads, elapsed);
  write_file(paths_.trace(), to_chrome_trace(threads, trace_.begin()) + "\n");
  write_file(paths_.profile(), table);
  // A thread that recorded more spans than it keeps has a trace that begins later than its table.
  const bool cut = std::any_of(threads.begin(), threads.end(),
                               [](const ThreadTrace& thread) { return thread.recorded > thread.latest.size(); });
  return concat(
      table, "profile: ", paths_.trace().string(), " (for chrome://tracing or Perfetto",
      cut ? concat("; the latest ", Trace::kSpansOfAThread, " spans of each thread, the table counts all") : "",
      ") and ", paths_.profile().string());
}

}  // namespace tandem::app
