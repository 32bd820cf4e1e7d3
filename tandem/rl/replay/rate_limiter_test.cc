#include "tandem/rl/replay/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::rl {
namespace {

using std::chrono::milliseconds;

// Whether the counts are within the laws of the header.
bool is_within(const RateLimiterOptions& options, const RateCounts& counts) {
  const double middle = static_cast<double>(options.min_rows) * options.samples_per_insert;
  const double surplus =
      static_cast<double>(counts.inserted) * options.samples_per_insert - static_cast<double>(counts.sampled);
  if (counts.sampled > 0 && surplus < middle - options.error_buffer) return false;
  return counts.inserted <= options.min_rows || surplus <= middle + options.error_buffer;
}

TEST(RateLimiterTest, NothingIsDrawnBeforeTheLeastRows) {
  RateLimiter limiter({.samples_per_insert = 2, .min_rows = 5, .error_buffer = 100});  // which alone would allow it
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(limiter.try_sample());
    EXPECT_TRUE(limiter.try_insert()) << "inserts up to min_rows are always allowed";
  }
  EXPECT_TRUE(limiter.try_sample());
}

TEST(RateLimiterTest, TheBoundsAreExact) {
  // D = I - S must stay within 10 +- 3.
  RateLimiter limiter({.samples_per_insert = 1, .min_rows = 10, .error_buffer = 3});
  for (int i = 0; i < 13; ++i) EXPECT_TRUE(limiter.try_insert());
  EXPECT_FALSE(limiter.try_insert()) << "D would be 14";
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(limiter.try_sample());
  EXPECT_FALSE(limiter.try_sample()) << "D would be 6";
  EXPECT_TRUE(limiter.try_insert());
  EXPECT_TRUE(limiter.try_sample());
  EXPECT_EQ(limiter.counts(), (RateCounts{.inserted = 14, .sampled = 7}));
}

TEST(RateLimiterTest, CallsCountTheirRows) {
  RateLimiter limiter(
      {.samples_per_insert = 8, .min_rows = 64, .error_buffer = 512, .rows_of_insert = 64, .rows_of_sample = 256});
  EXPECT_TRUE(limiter.try_insert());
  EXPECT_TRUE(limiter.try_insert()) << "D is 1024 of 512 +- 512";
  EXPECT_FALSE(limiter.try_insert());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(limiter.try_sample());
  EXPECT_FALSE(limiter.try_sample());
  EXPECT_EQ(limiter.counts(), (RateCounts{.inserted = 128, .sampled = 1024}));
}

TEST(RateLimiterTest, ARangeThatCouldLockBothIsRefused) {
  EXPECT_THROW(RateLimiter({.samples_per_insert = 0.5, .error_buffer = 0.9}), ConfigError);
  EXPECT_NO_THROW(RateLimiter({.samples_per_insert = 0.5, .error_buffer = 1}));
  EXPECT_THROW(RateLimiter({.samples_per_insert = 4, .error_buffer = 3.9}), ConfigError);
  EXPECT_NO_THROW(RateLimiter({.samples_per_insert = 4, .error_buffer = 4}));
  EXPECT_THROW(RateLimiter({.samples_per_insert = 1, .error_buffer = 100, .rows_of_sample = 256}), ConfigError);
  EXPECT_THROW(RateLimiter({.samples_per_insert = 8, .error_buffer = 300, .rows_of_insert = 64}), ConfigError);
  const std::string message = message_of<ConfigError>(
      [] { RateLimiter({.samples_per_insert = 0, .min_rows = 0, .error_buffer = -1, .rows_of_insert = 0}); });
  for (const char* fault : {"samples_per_insert is 0", "min_rows is 0", "error_buffer is -1", "one insert is of 0"})
    EXPECT_NE(message.find(fault), std::string::npos) << message;
}

TEST(RateLimiterTest, TheNarrowestAllowedRangeNeverLocksBoth) {
  for (const double ratio : {0.1, 0.5, 1.0, 3.0, 7.3, 20.0}) {
    for (const std::int64_t inserts : {1, 3, 64}) {
      for (const std::int64_t samples : {1, 5, 256}) {
        const double buffer = std::max(static_cast<double>(samples), ratio * static_cast<double>(inserts));
        const RateLimiterOptions options{.samples_per_insert = ratio,
                                         .min_rows = 10,
                                         .error_buffer = buffer,
                                         .rows_of_insert = inserts,
                                         .rows_of_sample = samples};
        RateLimiter limiter(options);
        for (int i = 0; i < 300; ++i) {
          ASSERT_TRUE(i % 2 == 0 ? limiter.try_insert() || limiter.try_sample()
                                 : limiter.try_sample() || limiter.try_insert());
          ASSERT_TRUE(is_within(options, limiter.counts()));
        }
      }
    }
  }
}

TEST(RateLimiterTest, AnInsertWakesADrawAndADrawWakesAnInsert) {
  RateLimiter limiter({.samples_per_insert = 1, .min_rows = 1, .error_buffer = 1});
  std::jthread learner([&] { EXPECT_EQ(limiter.sample({}), WaitOutcome::kReady); });
  ASSERT_TRUE(eventually([&] { return limiter.samplers_waiting() == 1; }));
  EXPECT_EQ(limiter.insert({}), WaitOutcome::kReady);
  learner.join();
  while (limiter.try_insert()) {
  }
  std::jthread sampler([&] { EXPECT_EQ(limiter.insert({}), WaitOutcome::kReady); });
  ASSERT_TRUE(eventually([&] { return limiter.inserters_waiting() == 1; }));
  EXPECT_EQ(limiter.sample({}), WaitOutcome::kReady);
}

TEST(RateLimiterTest, StopAndDeadlineEndWaitsAndCountNothing) {
  RateLimiter limiter({.samples_per_insert = 1, .min_rows = 2, .error_buffer = 1});
  EXPECT_EQ(limiter.sample({.deadline = Deadline::after(milliseconds(1)), .stop = {}}), WaitOutcome::kDeadline);
  std::stop_source stop;
  std::jthread learner([&] { EXPECT_EQ(limiter.sample({.stop = stop.get_token()}), WaitOutcome::kStopped); });
  ASSERT_TRUE(eventually([&] { return limiter.samplers_waiting() == 1; }));
  stop.request_stop();
  learner.join();
  while (limiter.try_insert()) {
  }
  const RateCounts before = limiter.counts();
  EXPECT_EQ(limiter.insert({.stop = stop.get_token()}), WaitOutcome::kStopped);
  EXPECT_EQ(limiter.insert({.deadline = Deadline::after(milliseconds(1)), .stop = {}}), WaitOutcome::kDeadline);
  EXPECT_EQ(limiter.counts(), before);
  EXPECT_EQ(limiter.sample({.stop = stop.get_token()}), WaitOutcome::kReady) << "what is allowed at once is made";
}

TEST(RateLimiterTest, EightThreadsKeepTheBoundsAtEveryInstant) {
  const RateLimiterOptions options{
      .samples_per_insert = 1.5, .min_rows = 50, .error_buffer = 12, .rows_of_insert = 4, .rows_of_sample = 3};
  RateLimiter limiter(options);
  std::stop_source stop;
  std::atomic<bool> all_within = true;
  const auto watch = [&] { all_within = all_within && is_within(options, limiter.counts()); };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (limiter.insert({.stop = stop.get_token()}) == WaitOutcome::kReady) {
          watch();
          if (limiter.counts().inserted >= 8'000) stop.request_stop();
        }
      });
    }
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (limiter.sample({.stop = stop.get_token()}) == WaitOutcome::kReady && !stop.stop_requested()) watch();
      });
    }
    threads.emplace_back([&] {
      while (!stop.stop_requested()) watch();
    });
  }
  EXPECT_TRUE(all_within);
  const RateCounts counts = limiter.counts();
  EXPECT_GE(counts.inserted, 8'000);
  EXPECT_TRUE(is_within(options, counts));
  EXPECT_EQ(counts.inserted % 4, 0);
  EXPECT_EQ(counts.sampled % 3, 0);
}

TEST(RateLimiterTest, CountsOfACheckpointGoOnAndImpossibleOnesAreRefused) {
  const RateLimiterOptions options{.samples_per_insert = 1, .min_rows = 10, .error_buffer = 3};
  RateLimiter limiter(options);
  limiter.restore({.inserted = 113, .sampled = 100});
  EXPECT_FALSE(limiter.try_insert());
  EXPECT_TRUE(limiter.try_sample());
  limiter.restore({.inserted = 4, .sampled = 0});
  EXPECT_FALSE(limiter.try_sample());
  for (const RateCounts& wrong :
       {RateCounts{.inserted = -1, .sampled = 0}, RateCounts{.inserted = 5, .sampled = 1},
        RateCounts{.inserted = 114, .sampled = 100}, RateCounts{.inserted = 10, .sampled = -4}})
    EXPECT_THROW(limiter.restore(wrong), CheckpointError) << wrong.inserted << ", " << wrong.sampled;
  EXPECT_EQ(limiter.counts(), (RateCounts{.inserted = 4, .sampled = 0}));
}

}  // namespace
}  // namespace tandem::rl
