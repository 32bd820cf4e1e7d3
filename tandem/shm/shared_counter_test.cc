#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tandem/base/testing/eventually.h"
#include "tandem/shm/control_block.h"

namespace tandem::shm {
namespace {

using namespace std::chrono_literals;
using Outcome = SharedCounter::Outcome;

const std::atomic<bool> kNever{false};

TEST(SharedCounterTest, ASleeperIsWokenByTheCountItWaitsFor) {
  SharedCounter counter;
  Outcome outcome{};
  std::jthread sleeper([&] { outcome = counter.sleep(2, Deadline::infinite(), kNever); });
  ASSERT_TRUE(eventually([&] { return counter.sleepers() == 1; }));
  counter.advance();
  EXPECT_FALSE(counter.has_reached(2));
  counter.advance();
  sleeper.join();
  EXPECT_EQ(outcome, Outcome::kReached);
  EXPECT_EQ(counter.sleepers(), 0);
}

TEST(SharedCounterTest, CloseWakesASleeper) {
  SharedCounter counter;
  Outcome outcome{};
  std::jthread sleeper([&] { outcome = counter.sleep(1, Deadline::infinite(), kNever); });
  ASSERT_TRUE(eventually([&] { return counter.sleepers() == 1; }));
  counter.close();
  sleeper.join();
  EXPECT_EQ(outcome, Outcome::kClosed);
}

TEST(SharedCounterTest, ASleeperCanBeHurried) {
  SharedCounter counter;
  std::atomic<bool> hurried{false};
  Outcome outcome{};
  std::jthread sleeper([&] { outcome = counter.sleep(1, Deadline::infinite(), hurried); });
  ASSERT_TRUE(eventually([&] { return counter.sleepers() == 1; }));
  hurried = true;
  ASSERT_TRUE(eventually([&] {
    counter.wake();
    return counter.sleepers() == 0;
  }));
  sleeper.join();
  EXPECT_EQ(outcome, Outcome::kDeadline);
}

TEST(SharedCounterTest, WhatWasReachedBeforeTheCloseStaysReached) {
  SharedCounter counter;
  counter.advance();
  counter.close();
  EXPECT_EQ(counter.sleep(1, Deadline::infinite(), kNever), Outcome::kReached);
  EXPECT_EQ(counter.sleep(2, Deadline::infinite(), kNever), Outcome::kClosed);
  EXPECT_EQ(counter.count(), 1U);
}

TEST(SharedCounterTest, TheDeadlineEndsASleep) {
  SharedCounter counter;
  EXPECT_EQ(counter.sleep(1, Deadline::after(10ms), kNever), Outcome::kDeadline);
  counter.advance();
  EXPECT_EQ(counter.sleep(1, Deadline::after(-1ms), kNever), Outcome::kReached);
}

}  // namespace
}  // namespace tandem::shm
