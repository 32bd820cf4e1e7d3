#include "tandem/metrics/jsonl_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

Record record_of(std::int64_t updates) {
  Record record;
  record.add("updates", updates);
  return record;
}

std::string lines(std::int64_t first, std::int64_t last) {
  std::string text;
  for (std::int64_t i = first; i <= last; ++i) text += "{\"updates\":" + std::to_string(i) + "}\n";
  return text;
}

TEST(RecordTest, KeepsOrderAndRefusesANameTwice) {
  Record record;
  record.add("b", 1.5).add("a", std::optional<double>()).add("c", std::optional(2.0));
  EXPECT_EQ(record.fields().front().first, "b");
  EXPECT_EQ(*record.find("a"), MetricValue(nullptr));
  EXPECT_EQ(*record.find("c"), MetricValue(2.0));
  EXPECT_EQ(record.find("d"), nullptr);
  EXPECT_THROW(record.add("a", 1.0), InvariantError);
}

TEST(RecordTest, TakesNumbersWithTheirNamesAndFurtherFields) {
  const std::vector<std::pair<std::string, double>> numbers{{"sync/bytes", 12345678}, {"sync/seconds", std::nan("")}};
  EXPECT_EQ(to_json(Record(numbers).add("epoch", std::int64_t{3})),
            R"({"sync/bytes":12345678,"sync/seconds":null,"epoch":3})");
  EXPECT_THROW(Record({{"a", 1.0}, {"a", 2.0}}), InvariantError);
}

TEST(JsonlSinkTest, WritesALineARecordAtOnce) {
  const TemporaryFolder folder;
  JsonlSink sink(folder / "m");
  Record record = record_of(1);
  record.add("loss", 0.25).add("return", nullptr).add("note", MetricValue(std::string("a\nb"))).add("kl", std::nan(""));
  sink.write(record);
  const std::string line = "{\"updates\":1,\"loss\":0.25,\"return\":null,\"note\":\"a\\nb\",\"kl\":null}\n";
  EXPECT_EQ(read_file(folder / "m"), line);
  sink.write(record_of(2));
  EXPECT_EQ(read_file(folder / "m"), line + "{\"updates\":2}\n");
}

TEST(JsonlSinkTest, ContinuesAFileAndRemovesItsTornEnd) {
  const TemporaryFolder folder;
  write_file(folder / "m", lines(1, 2) + "{\"upda");
  JsonlSink(folder / "m").write(record_of(3));
  EXPECT_EQ(read_file(folder / "m"), lines(1, 3));
}

TEST(JsonlSinkTest, AFullDiskLeavesWholeLinesAndLaterWritesWork) {
  const TemporaryFolder folder;
  JsonlSink sink(folder / "m");
  sink.write(record_of(1));
  arm_fault({.point = "metrics.append", .kind = FaultKind::kNoSpace});
  try {
    sink.write(record_of(2));
    FAIL() << "no error";
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot append to " + (folder / "m").string() + ": No space"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(read_file(folder / "m"), lines(1, 1));
  sink.write(record_of(2));
  EXPECT_EQ(read_file(folder / "m"), lines(1, 2));
}

TEST(JsonlSinkTest, SaysThatItsFolderIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THROW(JsonlSink(folder / "no/m"), CheckpointError);
}

TEST(TruncateJsonlTest, CutsAfterTheLastLineThatCounts) {
  const TemporaryFolder folder;
  for (const std::int64_t last : {0, 1, 4, 5, 9}) {
    write_file(folder / "m", lines(1, 5) + "{\"updates\":6");
    const auto kept = std::min<std::int64_t>(last, 5);
    EXPECT_EQ(truncate_jsonl(folder / "m", "updates", last), static_cast<std::size_t>(kept));
    EXPECT_EQ(read_file(folder / "m"), lines(1, kept)) << last;
  }
  EXPECT_EQ(truncate_jsonl(folder / "none", "updates", 1), 0u);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(TruncateJsonlTest, ALineWithoutTheCounterStaysWithTheOneBefore) {
  const TemporaryFolder folder;
  write_file(folder / "m", lines(1, 1) + "{\"event\":\"x\"}\n" + lines(2, 2) + "{\"event\":\"y\"}\n");
  EXPECT_EQ(truncate_jsonl(folder / "m", "updates", 1), 2u);
  EXPECT_EQ(read_file(folder / "m"), lines(1, 1) + "{\"event\":\"x\"}\n");
}

TEST(TruncateJsonlTest, GarbageAtTheEndIsCutAndGarbageBeforeIsAnError) {
  const TemporaryFolder folder;
  const std::string zeros(100, '\0');
  write_file(folder / "m", lines(1, 3) + zeros + "\n" + lines(8, 8));
  EXPECT_EQ(truncate_jsonl(folder / "m", "updates", 3), 3u);
  EXPECT_EQ(read_file(folder / "m"), lines(1, 3));

  const std::string broken = lines(1, 1) + "garbage\n" + lines(2, 3);
  write_file(folder / "m", broken);
  try {
    (void)truncate_jsonl(folder / "m", "updates", 2);
    FAIL() << "no error";
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("m:2 is not a line"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_file(folder / "m"), broken);
}

}  // namespace
}  // namespace tandem
