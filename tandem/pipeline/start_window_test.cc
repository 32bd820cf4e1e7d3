#include <gtest/gtest.h>

#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/pipeline/admission.h"

namespace tandem::pipeline {
namespace {

Limits at_once() { return {.deadline = Deadline::after(Clock::duration::zero()), .stop = {}}; }

TEST(StartWindowTest, IsCountedFromTheOldestThatIsNotOver) {
  StartWindow window(3);
  for (std::int64_t number = 0; number < 3; ++number) EXPECT_EQ(window.begin(0, at_once()), number);
  EXPECT_EQ(window.begin(0, at_once()), std::nullopt);
  window.end(1);
  window.end(2);
  EXPECT_EQ(window.begin(0, at_once()), std::nullopt) << "0 is not over";
  window.end(0);
  for (std::int64_t number = 3; number < 6; ++number) EXPECT_EQ(window.begin(0, at_once()), number);
  EXPECT_EQ(window.begin(0, at_once()), std::nullopt);
}

TEST(StartWindowTest, WhoAskedFirstBeginsFirstUnlessItWithdraws) {
  StartWindow window(1);
  EXPECT_EQ(window.begin(0, at_once()), 0);
  EXPECT_EQ(window.begin(1, at_once()), std::nullopt);
  EXPECT_EQ(window.begin(2, at_once()), std::nullopt);
  window.end(0);
  EXPECT_EQ(window.begin(0, at_once()), std::nullopt) << "1 and 2 asked before";
  EXPECT_EQ(window.begin(1, at_once()), 1);
  window.end(1);
  window.withdraw(2);
  EXPECT_EQ(window.begin(0, at_once()), 2);
}

TEST(StartWindowTest, AnEndWakesWhoWaits) {
  StartWindow window(1);
  (void)window.begin(0, at_once());
  std::optional<std::int64_t> began;
  std::jthread waiting(
      [&](const std::stop_token& stop) { began = window.begin(0, {.deadline = Deadline::infinite(), .stop = stop}); });
  ASSERT_TRUE(eventually([&] { return window.waiters() == 1; }));
  window.end(0);
  waiting.join();
  EXPECT_EQ(began, 1);
}

TEST(StartWindowTest, AStopEndsTheWait) {
  StartWindow window(1);
  (void)window.begin(0, at_once());
  std::optional<std::int64_t> began = 7;
  std::jthread waiting(
      [&](const std::stop_token& stop) { began = window.begin(0, {.deadline = Deadline::infinite(), .stop = stop}); });
  ASSERT_TRUE(eventually([&] { return window.waiters() == 1; }));
  waiting.request_stop();
  waiting.join();
  EXPECT_EQ(began, std::nullopt);
}

TEST(StartWindowTest, WhatIsNotUnderWayCannotEnd) {
  StartWindow window(2);
  EXPECT_THROW(window.end(0), InvariantError);
  for (std::int64_t number = 0; number < 2; ++number) EXPECT_EQ(window.begin(0, at_once()), number);
  window.end(1);
  EXPECT_THROW(window.end(1), InvariantError) << "it is over already";
  window.end(0);
  EXPECT_THROW(window.end(0), InvariantError) << "so is all before 2";
}

}  // namespace
}  // namespace tandem::pipeline
