#include "tandem/concurrency/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "tandem/base/error.h"
#include "tandem/concurrency/worker.h"

namespace tandem {
namespace {

const SpanTotal& total_of(const ThreadTrace& thread, std::string_view name) {
  const auto found = std::find_if(thread.totals.begin(), thread.totals.end(),
                                  [name](const SpanTotal& total) { return total.name == name; });
  EXPECT_NE(found, thread.totals.end()) << name;
  return *found;
}

void wait_a_tick() {
  const Clock::time_point begin = Clock::now();
  while (Clock::now() == begin) {
  }
}

TEST(TraceTest, ASpanIsRecordedOnlyWhileThereIsATrace) {
  { const Span before("before"); }
  std::optional<Trace> trace(std::in_place);
  { const Span during("during"); }
  const std::vector<ThreadTrace> threads = trace->threads();
  ASSERT_EQ(threads.size(), 1U);
  ASSERT_EQ(threads[0].totals.size(), 1U);
  EXPECT_STREQ(threads[0].totals[0].name, "during");
  EXPECT_GE(threads[0].latest[0].begin, trace->begin());
  trace.reset();
  { const Span after("after"); }
  const Trace another;
  EXPECT_TRUE(another.threads().empty());
}

TEST(TraceTest, OwnTimeIsThatWithoutTheSpansWithin) {
  const Trace trace;
  {
    const Span outer("outer");
    for (int i = 0; i < 3; ++i) {
      const Span inner("inner");
      wait_a_tick();
    }
  }
  const ThreadTrace thread = trace.threads().at(0);
  const SpanTotal outer = total_of(thread, "outer"), inner = total_of(thread, "inner");
  EXPECT_EQ(outer.count, 1U);
  EXPECT_EQ(inner.count, 3U);
  EXPECT_GT(inner.own, Clock::duration::zero());
  EXPECT_EQ(outer.own, outer.total - inner.total);
  EXPECT_EQ(inner.own, inner.total);
  EXPECT_GE(inner.total, inner.longest);
}

TEST(TraceTest, AFullBufferKeepsTheLatestAndTheTotalsOfAll) {
  const Trace trace(4);
  constexpr const char* kNames[] = {"0", "1", "2", "3", "4", "5", "6"};
  for (const char* name : kNames) const Span span(name);
  const ThreadTrace thread = trace.threads().at(0);
  EXPECT_EQ(thread.recorded, 7U);
  ASSERT_EQ(thread.latest.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_STREQ(thread.latest[i].name, kNames[3 + i]);
  EXPECT_EQ(thread.totals.size(), 7U);
}

TEST(TraceTest, EveryThreadHasItsOwnSpansUnderItsName) {
  const Trace trace;
  { const Span span("here"); }
  Worker worker("far", [](const std::stop_token&) { const Span span("there"); });
  worker.join();
  const std::vector<ThreadTrace> threads = trace.threads();
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[1].name, "far");
  EXPECT_STREQ(threads[0].totals.at(0).name, "here");
  EXPECT_STREQ(threads[1].totals.at(0).name, "there");
}

TEST(TraceTest, ASpanMayOutliveItsTraceAndCountsInNoOther) {
  std::optional<Trace> trace(std::in_place);
  {
    const Span outer("outer");
    trace.reset();
    trace.emplace();
    const Span inner("inner");
  }
  const ThreadTrace thread = trace->threads().at(0);
  ASSERT_EQ(thread.totals.size(), 1U);
  EXPECT_STREQ(thread.totals[0].name, "inner");
}

TEST(TraceTest, AProcessHasOneTraceAtATime) {
  const Trace trace;
  EXPECT_THROW(Trace(), InvariantError);
}

}  // namespace
}  // namespace tandem
