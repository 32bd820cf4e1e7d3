#include "tandem/pipeline/published.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>

#include "tandem/base/error.h"

namespace tandem::pipeline {
namespace {

int zero() { return 0; }

TEST(PublishedTest, ReadersGetTheNewestVersion) {
  Published<int> published(1, zero);
  EXPECT_EQ(published.read().version(), 0);
  published.publish(3, [](int& value) { value = 30; });
  const auto reading = published.read();
  EXPECT_EQ(reading.value(), 30);
  EXPECT_EQ(reading.version(), 3);
}

TEST(PublishedTest, AReadingKeepsItsValueWhileOthersArePublished) {
  Published<int> published(1, zero);
  published.publish(1, [](int& value) { value = 10; });
  const auto reading = published.read();
  for (int version = 2; version < 6; ++version) published.publish(version, [&](int& value) { value = 10 * version; });
  EXPECT_EQ(reading.value(), 10);
  EXPECT_EQ(reading.version(), 1);
}

TEST(PublishedTest, MoreReadingsThanAnnouncedAreADefect) {
  Published<int> published(1, zero);
  const auto one = published.read();
  published.publish(1, [](int&) {});
  const auto two = published.read();
  published.publish(2, [](int&) {});
  const auto three = published.read();
  EXPECT_THROW(published.publish(3, [](int&) {}), InvariantError);
}

TEST(PublishedTest, AVersionThatGoesBackIsADefect) {
  Published<int> published(1, zero);
  published.publish(2, [](int&) {});
  EXPECT_THROW(published.publish(1, [](int&) {}), InvariantError);
}

TEST(PublishedTest, NoReaderEverSeesAHalfWrittenValue) {
  using Value = std::array<std::int64_t, 64>;
  constexpr std::int64_t kVersions = 3000;
  Published<Value> published(3, [] { return Value{}; });
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      for (std::int64_t version = 0; version < kVersions;) {
        const auto reading = published.read();
        ASSERT_GE(reading.version(), version);
        version = reading.version();
        for (const std::int64_t element : reading.value()) ASSERT_EQ(element, version);
      }
    });
  }
  for (std::int64_t version = 1; version <= kVersions; ++version)
    published.publish(version, [version](Value& value) { value.fill(version); });
}

}  // namespace
}  // namespace tandem::pipeline
