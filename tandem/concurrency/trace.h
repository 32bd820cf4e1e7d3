// concurrency/trace.h: where the time of every thread goes, in named spans, recorded while somebody asks.
//
//   Trace trace;                       // from here on spans are recorded, on all threads of the process
//   {
//     const Span span("rollout");
//     ...
//     const Span inner("inference");   // counts as time of "rollout" too, but not as its own
//   }
//   for (const ThreadTrace& thread : trace.threads()) ...
//
// Each thread has its own buffer, of at most 65,536 spans: when it is full, the oldest make room, while the totals go
// on over all. Buffers stay until the trace ends, also those of threads that ended before. A recorded span costs two
// calls of the clock, a lock that nobody else wants and a look for its name's total; without a trace, a look at one
// flag.
//
// Threads: spans belong to the thread that begins them and end in the reverse order; threads() may be called from any,
// and knows nothing of a span that is still open. A Trace may end while spans are open. Blocking: no.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"

namespace tandem {

struct SpanRecord {
  const char* name;
  Clock::time_point begin;
  Clock::duration duration;
};

/// Of all spans of one name on one thread, from the beginning of the trace.
struct SpanTotal {
  const char* name;
  Clock::duration total{0};
  Clock::duration own{0};  // without the spans within
  Clock::duration longest{0};
  std::uint64_t count = 0;
};

struct ThreadTrace {
  std::string name;                // of the thread, when it first had a span
  std::vector<SpanRecord> latest;  // as they ended
  std::uint64_t recorded = 0;      // of which the latest are kept
  std::vector<SpanTotal> totals;   // as they were first seen
};

namespace trace {
class Buffer;
}

class Trace {
 public:
  static constexpr std::size_t kSpansOfAThread = 1U << 16;

  /// `spans_of_a_thread`: how many of the latest are kept. A process has one trace at a time: InvariantError for
  /// another.
  explicit Trace(std::size_t spans_of_a_thread = kSpansOfAThread);
  /// Spans are recorded no more.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  [[nodiscard]] Clock::time_point begin() const { return begin_; }
  /// Those that had a span, in the order of their first one.
  [[nodiscard]] std::vector<ThreadTrace> threads() const;

 private:
  const Clock::time_point begin_ = Clock::now();
};

class Span {
 public:
  /// `name`: a literal, since it is kept as it is.
  explicit Span(const char* name) {
    if (recording_.load(std::memory_order_relaxed)) open(name);
  }
  ~Span() {
    if (buffer_) close();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  friend class Trace;
  void open(const char* name);
  void close();

  static std::atomic<bool> recording_;
  static thread_local Span* innermost_;

  std::shared_ptr<trace::Buffer> buffer_;  // null: not recorded
  const char* name_ = nullptr;
  Span* outer_ = nullptr;
  Clock::time_point begin_;
  Clock::duration within_{0};  // of the spans that ended inside
};

}  // namespace tandem
