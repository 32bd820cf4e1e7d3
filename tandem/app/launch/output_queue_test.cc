#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>

#include "tandem/app/launch/rank_output.h"
#include "tandem/base/descriptor.h"

namespace tandem::app {
namespace {

class OutputQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }
  std::string read() const {
    std::array<char, 65536> buffer;
    const ssize_t size = ::read(reader.get(), buffer.data(), buffer.size());
    return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : "";
  }
  Descriptor reader, writer;
};

TEST_F(OutputQueueTest, AWriteEndsWithALineWhereItCan) {
  OutputQueue queue(writer.get());
  const std::string first = std::string(PIPE_BUF - 10, 'a') + "\n", second = std::string(100, 'b') + "\n";
  queue.add(first + second);
  queue.write_some();
  EXPECT_EQ(read(), first);
  EXPECT_FALSE(queue.is_inside_line());
  queue.write_some();
  EXPECT_EQ(read(), second);
  EXPECT_TRUE(queue.is_empty());
}

TEST_F(OutputQueueTest, ALongLineTakesSeveralWritesAndSaysSo) {
  OutputQueue queue(writer.get());
  const std::string line = std::string(PIPE_BUF + 10, 'a') + "\n";
  queue.add(line);
  queue.write_some();
  EXPECT_TRUE(queue.is_inside_line());
  queue.write_some();
  EXPECT_FALSE(queue.is_inside_line());
  EXPECT_EQ(read(), line);
}

TEST_F(OutputQueueTest, IsFullUntilEnoughIsWritten) {
  OutputQueue queue(writer.get());
  queue.add(std::string(OutputQueue::kFull - 1, 'a') + "\n");
  EXPECT_TRUE(queue.is_full());
  queue.write_some();
  EXPECT_FALSE(queue.is_full());
}

TEST_F(OutputQueueTest, WhenTheReaderIsGoneTextIsDropped) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  OutputQueue queue(writer.get());
  reader.close();
  queue.add("a\n");
  queue.write_some();
  EXPECT_TRUE(queue.is_empty());
  queue.add("b\n");
  EXPECT_TRUE(queue.is_empty());
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace tandem::app
