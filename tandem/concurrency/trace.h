// concurrency/trace.h: records in named spans where the time of every thread goes, while a Trace exists.
//
//   Trace trace;                       // from here on spans are recorded, on all threads of the process
//   {
//     const Span span("rollout");
//     ...
//     const Span inner("inference");   // counts as time of "rollout" too, but not as its own
//   }
//   for (const ThreadTrace& thread : trace.threads()) ...
//
// Each thread has a buffer of its own, of at most 65,536 spans. When the buffer is full, the oldest spans make room;
// the totals still count all spans. Buffers stay until the trace ends, also the buffers of threads that ended before. A
// recorded span costs two calls of the clock, a lock that no other thread wants and a search for the total of its name.
// Without a trace, a span costs a look at one flag.
//
// Threads: a span belongs to the thread that begins it, and spans end in the reverse order. threads() may be called
// from any thread and leaves out spans that are still open. A Trace may end while spans are open. Nothing blocks.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem {

/// One span that has ended. `name` is the literal that the span was given, so comparing texts and not pointers finds
/// equal names.
struct SpanRecord {
  const char* name;
  Clock::time_point begin;
  Clock::duration duration;
};

/// Sums up all spans of one name on one thread, from the beginning of the trace. Spans that left the buffer still count
/// here.
struct SpanTotal {
  const char* name;
  Clock::duration total{0};
  Clock::duration own{0};  // without the spans within
  Clock::duration longest{0};
  std::uint64_t count = 0;
};

/// All that is recorded of one thread.
struct ThreadTrace {
  std::string name;                // the thread's name at its first span
  std::vector<SpanRecord> latest;  // the newest spans, in the order of their ends
  std::uint64_t recorded = 0;      // the number of all spans, also those that made room
  std::vector<SpanTotal> totals;   // in the order in which the names were first seen
};

/// Returns one JSON object with the kept spans of each thread, in the order of their ends: the format that Chrome's
/// trace viewer, Perfetto and speedscope read. Times count from `begin`, in microseconds. Source: "Trace Event Format",
/// complete events ("X") and thread names ("M").
[[nodiscard]] std::string to_chrome_trace(std::span<const ThreadTrace> threads, Clock::time_point begin);

namespace trace {
class Buffer;
}

/// Threads may hold their buffers longer than the trace lives.
class Trace {
 public:
  static constexpr std::size_t kSpansOfAThread = 1U << 16;

  /// Begins to record. `spans_of_a_thread` is the number of spans that are kept of each thread. A process has one trace
  /// at a time: a second one throws InvariantError. `spans_of_a_thread` must be at least 1.
  explicit Trace(std::size_t spans_of_a_thread = kSpansOfAThread);
  /// Ends the recording and drops the buffers.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The moment from which the times of a report count.
  [[nodiscard]] Clock::time_point begin() const { return begin_; }
  /// The threads that had a span, in the order of their first spans. The result is a copy; recording goes on meanwhile.
  [[nodiscard]] std::vector<ThreadTrace> threads() const;

 private:
  const Clock::time_point begin_ = Clock::now();
};

/// The time from its construction to its destruction, on one thread.
class Span {
 public:
  /// `name` is a literal, since the pointer is kept. A span that begins before the trace is not recorded, even if it
  /// ends during the trace.
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
  // open() and close() are out of line, so that a span that is not recorded costs only its test.
  void open(const char* name);
  void close();

  // The flag is read by every span, and written only when a trace begins or ends.
  static std::atomic<bool> recording_;
  // Points to the open span of this thread that began last, which is the one that a new span lies in.
  static thread_local Span* innermost_;

  std::shared_ptr<trace::Buffer> buffer_;  // null: not recorded
  const char* name_ = nullptr;
  Span* outer_ = nullptr;
  Clock::time_point begin_;
  Clock::duration within_{0};  // of the spans that ended inside
};

}  // namespace tandem
