#include "tandem/base/last_word.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <optional>

namespace tandem {
namespace {

class LastWordTest : public ::testing::Test {
 protected:
  LastWordTest() { EXPECT_EQ(::pipe2(ends_.data(), O_NONBLOCK), 0); }
  ~LastWordTest() override {
    for (const int end : ends_) ::close(end);
  }
  [[nodiscard]] std::string value() const { return last_word_value(ends_[1]); }
  [[nodiscard]] bool is_missing() const { return is_word_missing(ends_[0]); }

  std::array<int, 2> ends_{};
};

TEST_F(LastWordTest, IsMissingBetweenTheFirstPromiseAndTheLast) {
  EXPECT_FALSE(is_missing());  // nothing was promised
  std::optional<LastWord> program(std::in_place, value()), world(std::in_place, value());
  LastWord moved = std::move(*world);
  world.reset();
  moved = LastWord();
  EXPECT_TRUE(is_missing());
  program.reset();
  EXPECT_FALSE(is_missing());
}

TEST_F(LastWordTest, GoesIntoNoOtherFile) {
  const std::string there = value();
  LastWord word(there);
  std::array<int, 2> other{};
  ASSERT_EQ(::pipe2(other.data(), O_NONBLOCK), 0);
  ASSERT_EQ(::dup2(other[1], ends_[1]), ends_[1]);  // a library closed the descriptor, and another file has its number
  word = LastWord();
  char byte = 0;
  EXPECT_EQ(::read(other[0], &byte, 1), -1);
  const LastWord late(there), none(""), text("seven:eight");
  EXPECT_TRUE(is_missing());
  for (const int end : other) ::close(end);
}

}  // namespace
}  // namespace tandem
