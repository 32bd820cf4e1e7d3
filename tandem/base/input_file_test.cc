#include "tandem/base/input_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/process.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Without the check each of these calls would wait for ever, or read without an end.
TEST(InputFileTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto pipe = ThrowsMessage<CheckpointError>(HasSubstr("pipe: it is a pipe"));
  EXPECT_THAT([&] { (void)read_file(folder / "pipe"); }, pipe);
  EXPECT_THAT([&] { (void)read_json_file(folder / "pipe"); }, pipe);
  EXPECT_THAT([&] { (void)LineReader(folder / "pipe"); }, pipe);
  EXPECT_THAT([&] { (void)last_line(folder / "pipe"); }, pipe);
  EXPECT_THAT([&] { (void)open_regular("append to", folder / "pipe", O_WRONLY | O_APPEND); }, pipe);
  EXPECT_THAT([&] { (void)read_file("/dev/zero"); }, ThrowsMessage<CheckpointError>(HasSubstr("it is a device")));
  EXPECT_THAT([&] { (void)read_file(folder.path()); }, ThrowsMessage<CheckpointError>(HasSubstr("Is a directory")));
  EXPECT_GT(read_file("/proc/self/status").size(), 100u);
}

TEST(InputFileTest, AFileLargerThanTheBoundIsRefusedBeforeItIsRead) {
  const TemporaryFolder folder;
  write_file(folder / "f", "12345");
  EXPECT_EQ(read_file(folder / "f", 5), "12345");
  EXPECT_THAT([&] { (void)read_file(folder / "f", 4); },
              ThrowsMessage<CheckpointError>(HasSubstr("more than 4 bytes")));
  // A file without content that claims more than the machine has.
  std::filesystem::resize_file(folder / "f", 2 * machine_memory());
  EXPECT_THAT([&] { (void)read_file(folder / "f"); }, ThrowsMessage<CheckpointError>(HasSubstr("bytes")));
}

TEST(LineReaderTest, LinesComeOneByOneAndHalfALineIsNone) {
  const TemporaryFolder folder;
  const std::string longer(200'000, 'x');
  write_file(folder / "f", "a\n\n" + longer + "\nhalf");
  LineReader lines(folder / "f");
  EXPECT_EQ(lines.next(), "a");
  EXPECT_EQ(lines.end(), 2u);
  EXPECT_EQ(lines.next(), "");
  EXPECT_EQ(lines.next(), longer);
  EXPECT_EQ(lines.number(), 3);
  EXPECT_EQ(lines.end(), 3 + longer.size() + 1);
  EXPECT_EQ(lines.next(), std::nullopt);
  EXPECT_EQ(lines.bytes(), lines.end() + 4);
}

TEST(LineReaderTest, ALineThatIsTooLongIsRefusedAndTheNextOneRead) {
  const TemporaryFolder folder;
  const std::string longer(300'000, 'x');
  write_file(folder / "f", "a\n" + longer + "\nb\n" + longer);
  LineReader lines(folder / "f", 1000);
  EXPECT_EQ(lines.next(), "a");
  EXPECT_THAT([&] { (void)lines.next(); }, ThrowsMessage<DataError>(HasSubstr("f:2: longer than 1000")));
  EXPECT_EQ(lines.next(), "b");
  EXPECT_EQ(lines.end(), 2 + longer.size() + 1 + 2);
  EXPECT_EQ(lines.next(), std::nullopt) << "half a line is none, however long";
}

TEST(LineReaderTest, TheLastLineIsFoundFromTheEnd) {
  const TemporaryFolder folder;
  const auto last_of = [&](const std::string& text) {
    write_file(folder / "f", text);
    return last_line(folder / "f", 20'000);
  };
  EXPECT_EQ(last_of(""), std::nullopt);
  EXPECT_EQ(last_of("half"), std::nullopt);
  EXPECT_EQ(last_of("\n"), "");
  EXPECT_EQ(last_of("a\nb\nhalf"), "b");
  const std::string longer(10'000, 'x');
  EXPECT_EQ(last_of("a\n" + longer + "\n" + longer), longer);
  EXPECT_EQ(last_of(longer + "\n"), longer);
  EXPECT_THROW((void)last_of("a\n" + std::string(30'000, 'x') + "\n"), DataError);
  EXPECT_EQ(last_of("a\n" + std::string(300'000, 'x')), "a");
  EXPECT_EQ(bytes_of_lines(folder / "f"), 2u);
}

}  // namespace
}  // namespace tandem
