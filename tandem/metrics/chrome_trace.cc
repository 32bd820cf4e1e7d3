#include "tandem/metrics/chrome_trace.h"

#include <cmath>

#include "tandem/base/json_writer.h"

namespace tandem {
namespace {

constexpr int kProcess = 1;  // the viewers want a process number; a trace has one process

// Rounded to nanoseconds, since more digits would only make the file larger.
double microseconds(Clock::duration span) {
  return std::round(1e3 * std::chrono::duration<double, std::micro>(span).count()) / 1e3;
}

}  // namespace

std::string to_chrome_trace(std::span<const ThreadTrace> threads, Clock::time_point begin) {
  JsonWriter json;
  json.begin_object().key("displayTimeUnit").value("ms").key("traceEvents").begin_array();
  int number = 0;
  for (const ThreadTrace& thread : threads) {
    ++number;
    json.begin_object().key("name").value("thread_name").key("ph").value("M");
    json.key("pid").value(kProcess).key("tid").value(number);
    json.key("args").begin_object().key("name").value(thread.name).end_object().end_object();
    for (const SpanRecord& span : thread.latest) {
      json.begin_object().key("name").value(span.name).key("ph").value("X");
      json.key("ts").value(microseconds(span.begin - begin)).key("dur").value(microseconds(span.duration));
      json.key("pid").value(kProcess).key("tid").value(number).end_object();
    }
  }
  json.end_array().end_object();
  return json.text();
}

}  // namespace tandem
