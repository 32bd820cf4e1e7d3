// Runs whose checkpoints earlier builds wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/testing/run_captured.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void train_impala(const std::string& folder, const std::string& shards) {
  const Outcome trained =
      run_captured({"train", "--algo", "impala", "--env", "CartPole-v1", "--num-envs", "8", "--rollout-steps", "16",
                    "--total-steps", "512", "--set", "impala.batches_per_update=4", "--set", "policy.hidden=8",
                    "--shards", shards, "--run-dir", folder});
  ASSERT_EQ(trained.code, 0) << trained.err;
}

// Writes the newest checkpoint of `run` again, with the env groups of `other`.
void give_groups_of(const RunPaths& other, const RunPaths& run) {
  const std::optional<model::Checkpoint> groups = model::CheckpointStore(other.checkpoints()).latest();
  model::CheckpointStore store(run.checkpoints());
  const std::optional<model::Checkpoint> rest = store.latest();
  ASSERT_TRUE(groups && rest);
  model::CheckpointWriter writer = store.begin(rest->updates() + 1);
  const auto copy = [&writer](const model::Checkpoint& from, const std::string& part) {
    writer.write_part(part, from.read_part(part).tensors);
  };
  const auto is_group = [](const std::string& part) { return part.starts_with("env-group-"); };
  for (const model::CheckpointPart& part : rest->parts()) {
    if (!is_group(part.name)) copy(*rest, part.name);
  }
  for (const model::CheckpointPart& part : groups->parts()) {
    if (is_group(part.name)) copy(*groups, part.name);
  }
  writer.commit(rest->info());
}

// Rollout workers had one env group for all shards.
TEST(OutdatedCheckpointTest, OneWithEnvGroupsOfWholeWorkersIsRefusedWithItsCause) {
  const TemporaryFolder scratch;
  train_impala(scratch / "run", "2");
  train_impala(scratch / "whole", "1");
  give_groups_of({scratch / "whole"}, {scratch / "run"});
  const Outcome resumed = run_captured({"resume", scratch / "run", "--total-steps", "1024"});
  EXPECT_EQ(resumed.code, 3);
  EXPECT_THAT(resumed.err,
              AllOf(HasSubstr("this build cannot go on from "),
                    HasSubstr("'env-group-0' has all 4 environments of a rollout worker, and this run's has 2"),
                    HasSubstr("(num_envs 8 / 2 workers / 2 shards / 1 splits): an earlier build wrote it"),
                    HasSubstr("End the run with the build that began it"), Not(HasSubstr("config.yaml back"))));
  const Outcome played = run_captured({"eval", scratch / "run", "--episodes", "1"});
  EXPECT_EQ(played.code, 0) << played.err;
  const Outcome exported = run_captured({"export", scratch / "run", "-o", scratch / "policy.pt"});
  EXPECT_EQ(exported.code, 0) << exported.err;
}

}  // namespace
}  // namespace tandem::app
