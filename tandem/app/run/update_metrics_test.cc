#include "tandem/app/run/update_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/metrics/jsonl_sink.h"

namespace tandem::app {
namespace {

UpdateMetrics second_update() {
  UpdateMetrics metrics{.updates = 2, .env_steps = 512, .wall_s = 1.5, .env_steps_per_s = 300};
  metrics.episode_return_mean = 21.25;
  metrics.episode_length_mean = 22;
  metrics.episodes = 7;
  metrics.figures.add("policy_loss", -0.1).add("rows_cut", std::int64_t{120}).add("saved_ms", nullptr);
  return metrics;
}

TEST(UpdateMetricsTest, AreReadFromTheLastLineAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  EXPECT_EQ(read_last(file, 0), std::nullopt) << "there is no file";
  JsonlSink sink(file);
  sink.write(to_record({.updates = 1, .env_steps = 256}));
  EXPECT_EQ(read_last(file, 1)->episode_return_mean, std::nullopt);
  sink.write(to_record(second_update()));
  EXPECT_EQ(read_last(file, 1), std::nullopt) << "the last line is of update 2";
  EXPECT_EQ(read_last(file, 2), second_update());
}

TEST(UpdateMetricsTest, ALineThatWasReadIsWrittenAsTheSameText) {
  UpdateMetrics metrics = second_update();
  metrics.figures.add("grad_norm", 5.0).add("learning_rate", 2.5e-4).add("explained_variance", NAN);
  const std::string line = to_json(to_record(metrics));
  EXPECT_EQ(to_json(to_record(from_line(read_json(line)))), line);
}

TEST(UpdateMetricsTest, AFieldThatIsMissingIsAnError) {
  EXPECT_THROW((void)from_line(read_json(R"({"updates": 3})")), DataError);
}

TEST(UpdateMetricsTest, ThePolicyThatIsNamedFirstIsFound) {
  Record figures;
  figures.add("policy_loss", 1.0);
  EXPECT_EQ(first_policy(figures), "");
  figures.add("policy/red/left/episodes", std::int64_t{1}).add("policy/blue/episodes", std::int64_t{2});
  EXPECT_EQ(first_policy(figures), "red/left");
}

TEST(UpdateMetricsTest, ALineOfTooManyFieldsIsRefused) {
  std::string line = "{\"updates\":1";
  for (int i = 0; i < 10'000; ++i) line += ",\"f" + std::to_string(i) + "\":0";
  EXPECT_THAT([&] { (void)from_line(read_json(line + "}")); },
              ::testing::ThrowsMessage<DataError>(::testing::HasSubstr("10001 fields")));
}

}  // namespace
}  // namespace tandem::app
