#include "tandem/concurrency/trace.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/json_writer.h"

namespace tandem {
namespace trace {

// The spans of one thread. That thread writes, and Trace::threads() reads.
class Buffer {
 public:
  Buffer(std::string thread, std::size_t capacity) : thread_(std::move(thread)), capacity_(capacity) {
    latest_.reserve(capacity);
  }

  void add(const SpanRecord& span, Clock::duration own) {
    const MutexLock lock(mutex_);
    if (latest_.size() < capacity_) {
      latest_.push_back(span);
    } else {
      latest_[recorded_ % capacity_] = span;
    }
    ++recorded_;
    SpanTotal& total = total_of(span.name);
    total.total += span.duration;
    total.own += own;
    total.longest = std::max(total.longest, span.duration);
    ++total.count;
  }

  [[nodiscard]] ThreadTrace read() const {
    const MutexLock lock(mutex_);
    ThreadTrace result{.name = thread_, .latest = latest_, .recorded = recorded_, .totals = totals_};
    // A full buffer is a ring: its oldest span lies where the next one would be written.
    if (recorded_ > capacity_) {
      const auto oldest = static_cast<std::ptrdiff_t>(recorded_ % capacity_);
      std::rotate(result.latest.begin(), result.latest.begin() + oldest, result.latest.end());
    }
    return result;
  }

 private:
  // A thread has a dozen names; the same literal may have an address for each source file.
  SpanTotal& total_of(const char* name) TANDEM_REQUIRES(mutex_) {
    const auto found = std::find_if(totals_.begin(), totals_.end(), [name](const SpanTotal& total) {
      return total.name == name || std::string_view(total.name) == name;
    });
    return found != totals_.end() ? *found : totals_.emplace_back(SpanTotal{.name = name});
  }

  const std::string thread_;
  const std::size_t capacity_;
  mutable Mutex mutex_;
  std::vector<SpanRecord> latest_ TANDEM_GUARDED_BY(mutex_);
  std::uint64_t recorded_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::vector<SpanTotal> totals_ TANDEM_GUARDED_BY(mutex_);
};

namespace {

// The trace of the process. Each thread adds its buffer with its first span.
struct Registry {
  Mutex mutex;
  std::uint64_t generation TANDEM_GUARDED_BY(mutex) = 0;  // counts traces; a thread's buffer belongs to one of them
  bool open TANDEM_GUARDED_BY(mutex) = false;
  std::size_t capacity TANDEM_GUARDED_BY(mutex) = 0;
  std::vector<std::shared_ptr<Buffer>> buffers TANDEM_GUARDED_BY(mutex);
};

Registry& registry() {
  static Registry the_only;
  return the_only;
}

std::atomic<std::uint64_t> current_generation{0};

std::string thread_name() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

// Returns the buffer of this thread, which is made at the first span in a trace. Null when the trace has ended
// meanwhile. A thread keeps the pointer with the generation of its trace, so later spans need no lock of the registry.
std::shared_ptr<Buffer> buffer_of_this_thread() {
  thread_local std::shared_ptr<Buffer> buffer;
  thread_local std::uint64_t generation = 0;
  if (generation == current_generation.load(std::memory_order_acquire)) return buffer;
  Registry& its = registry();
  const MutexLock lock(its.mutex);
  // The flag may have been read just before the trace ended.
  if (!its.open) return nullptr;
  buffer = its.buffers.emplace_back(std::make_shared<Buffer>(thread_name(), its.capacity));
  generation = its.generation;
  return buffer;
}

constexpr int kProcess = 1;  // the viewers want a process number; a trace has one process

// Rounded to nanoseconds, since more digits would only make the file larger.
double microseconds(Clock::duration span) {
  return std::round(1e3 * std::chrono::duration<double, std::micro>(span).count()) / 1e3;
}

}  // namespace
}  // namespace trace

std::string to_chrome_trace(std::span<const ThreadTrace> threads, Clock::time_point begin) {
  JsonWriter json;
  json.begin_object().key("displayTimeUnit").value("ms").key("traceEvents").begin_array();
  int number = 0;
  for (const ThreadTrace& thread : threads) {
    ++number;
    json.begin_object().key("name").value("thread_name").key("ph").value("M");
    json.key("pid").value(trace::kProcess).key("tid").value(number);
    json.key("args").begin_object().key("name").value(thread.name).end_object().end_object();
    for (const SpanRecord& span : thread.latest) {
      json.begin_object().key("name").value(span.name).key("ph").value("X");
      json.key("ts")
          .value(trace::microseconds(span.begin - begin))
          .key("dur")
          .value(trace::microseconds(span.duration));
      json.key("pid").value(trace::kProcess).key("tid").value(number).end_object();
    }
  }
  json.end_array().end_object();
  return json.text();
}

std::atomic<bool> Span::recording_{false};
thread_local Span* Span::innermost_ = nullptr;

Trace::Trace(std::size_t spans_of_a_thread) {
  TANDEM_CHECK(spans_of_a_thread > 0, "a trace keeps at least one span of each thread");
  trace::Registry& its = trace::registry();
  const MutexLock lock(its.mutex);
  TANDEM_CHECK(!its.open, "a trace is being recorded already");
  its.open = true;
  its.capacity = spans_of_a_thread;
  trace::current_generation.store(++its.generation, std::memory_order_release);
  Span::recording_.store(true, std::memory_order_relaxed);
}

Trace::~Trace() {
  // Spans that began before the store still end in their buffers, which they own together with the registry.
  Span::recording_.store(false, std::memory_order_relaxed);
  trace::Registry& its = trace::registry();
  const MutexLock lock(its.mutex);
  its.open = false;
  its.buffers.clear();
}

std::vector<ThreadTrace> Trace::threads() const {
  trace::Registry& its = trace::registry();
  const MutexLock lock(its.mutex);
  std::vector<ThreadTrace> all;
  for (const auto& buffer : its.buffers) all.push_back(buffer->read());
  return all;
}

void Span::open(const char* name) {
  buffer_ = trace::buffer_of_this_thread();
  if (!buffer_) return;
  name_ = name;
  outer_ = std::exchange(innermost_, this);
  begin_ = Clock::now();
}

// The time of a span that ends counts as time within the span around it, which subtracts it from its own time.
void Span::close() {
  const Clock::duration duration = Clock::now() - begin_;
  innermost_ = outer_;
  if (outer_ != nullptr) outer_->within_ += duration;
  buffer_->add({.name = name_, .begin = begin_, .duration = duration}, duration - within_);
}

}  // namespace tandem
