// Runs that go on where they would have other numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/cpu.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::app {
namespace {

using ::testing::HasSubstr;

void expect_success(const std::vector<std::string>& arguments) {
  const Outcome ended = run_captured(arguments);
  ASSERT_EQ(ended.code, 0) << ended.err;
}

class MovedRunTest : public ::testing::Test {
 protected:
  void train(const std::string& name, const std::string& steps, const std::string& instructions) {
    // What is scheduled over total_steps would differ in runs of other lengths.
    expect_success({"train", "--env", "CartPole-v1", "--seed", "3", "--total-steps", steps, "--set", "policy.hidden=8",
                    "--set", "ppo.learning_rate_schedule=constant", "--set", "ppo.clip_range_schedule=constant",
                    "--set", "instructions=" + instructions, "--run-dir", scratch / name});
  }
  void resume(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"resume", scratch / name, "--total-steps", "2048"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(arguments);
  }
  std::string summary(const std::string& name, const std::string& key) {
    return read_json_file(RunPaths{scratch / name}.summary()).at(key).as_string();
  }
  std::string log_of(const std::string& name) { return read_file(RunPaths{scratch / name}.log()); }

  const TemporaryFolder scratch;
  const std::string here = name_of(detect_instruction_set());
};

TEST_F(MovedRunTest, AResumeKeepsTheInstructionsOfTheRunAndIsExact) {
  train("whole", "2048", "portable");
  train("run", "1024", "portable");
  resume("run");
  EXPECT_EQ(summary("run", "resumed"), "exactly");
  EXPECT_THAT(summary("run", "cpu"), HasSubstr("portable, LibTorch "));
  EXPECT_EQ(summary("run", "state_sha256"), summary("whole", "state_sha256"));
}

TEST_F(MovedRunTest, OtherInstructionsAreTakenWhenAskedForAndSaid) {
  if (detect_instruction_set() == InstructionSet::kPortable) GTEST_SKIP() << "this processor has no others";
  train("whole", "2048", "portable");
  train("run", "1024", "portable");
  resume("run", {"--set", "instructions=" + here});
  EXPECT_EQ(summary("run", "resumed"), "inexactly");
  EXPECT_THAT(log_of("run"), HasSubstr("cpu was portable, LibTorch"));
  EXPECT_NE(summary("run", "state_sha256"), summary("whole", "state_sha256"));
}

// No device is at hand, so the checkpoint says that it is from one.
TEST_F(MovedRunTest, AnotherTypeOfDevicesIsSaid) {
  train("run", "1024", here);
  model::CheckpointStore store(RunPaths{scratch / "run"}.checkpoints());
  const std::optional<model::Checkpoint> last = store.latest();
  ASSERT_TRUE(last);
  model::CheckpointInfo info = last->info();
  ASSERT_EQ(info.metadata.at("devices"), "cpu");
  info.metadata["devices"] = "cuda";
  model::CheckpointWriter writer = store.begin(last->updates() + 1);
  for (const model::CheckpointPart& part : last->parts())
    writer.write_part(part.name, last->read_part(part.name).tensors);
  writer.commit(info);
  resume("run");
  EXPECT_EQ(summary("run", "resumed"), "inexactly");
  EXPECT_THAT(log_of("run"), HasSubstr("devices was cuda and is cpu now"));
}

}  // namespace
}  // namespace tandem::app
