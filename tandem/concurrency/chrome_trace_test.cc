#include <gtest/gtest.h>

#include <chrono>

#include "tandem/base/json_reader.h"
#include "tandem/concurrency/trace.h"

namespace tandem {
namespace {

using std::chrono::microseconds;

TEST(ChromeTraceTest, HasTheNameOfEachThreadAndASpanAnEvent) {
  const Clock::time_point begin = Clock::now();
  const std::vector<ThreadTrace> threads{
      {.name = "replica 0",
       .latest = {{.name = "rollout", .begin = begin + microseconds(5), .duration = microseconds(7)}},
       .totals = {}},
      {.name = "\"quoted\"", .latest = {}, .totals = {}}};
  const JsonValue trace = read_json(to_chrome_trace(threads, begin));
  const JsonValue& events = trace.at("traceEvents");
  ASSERT_EQ(events.as_array().size(), 3U);
  const JsonValue& name = events.as_array()[0];
  EXPECT_EQ(name.at("ph").as_string(), "M");
  EXPECT_EQ(name.at("args").at("name").as_string(), "replica 0");
  const JsonValue& span = events.as_array()[1];
  EXPECT_EQ(span.at("ph").as_string(), "X");
  EXPECT_EQ(span.at("name").as_string(), "rollout");
  EXPECT_EQ(span.at("ts").as_double(), 5);
  EXPECT_EQ(span.at("dur").as_double(), 7);
  EXPECT_EQ(span.at("tid").as_int64(), name.at("tid").as_int64());
  EXPECT_EQ(events.as_array()[2].at("args").at("name").as_string(), "\"quoted\"");
  EXPECT_NE(events.as_array()[2].at("tid").as_int64(), name.at("tid").as_int64());
}

}  // namespace
}  // namespace tandem
