#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tandem/app/run/stop_signals.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// PATH with nothing but a shell script in the place of Slurm's scontrol.
class RequeueTest : public ::testing::Test {
 protected:
  RequeueTest() {
    ::setenv("PATH", folder_.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread, in all of this file
    ::setenv("SLURM_JOB_ID", "4711", 1);          // NOLINT(concurrency-mt-unsafe)
  }
  ~RequeueTest() override {
    ::setenv("PATH", path_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    ::unsetenv("SLURM_JOB_ID");          // NOLINT(concurrency-mt-unsafe)
  }

  void scontrol_does(const std::string& script) {
    const auto file = folder_ / "scontrol";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  static std::string failure(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    try {
      (void)requeue_job(limit);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }

  const TemporaryFolder folder_;
  const std::string path_ = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
};

TEST_F(RequeueTest, AsksScontrolForTheJob) {
  scontrol_does("echo \"$@\" > " + (folder_ / "asked").string());
  EXPECT_EQ(requeue_job(), Requeued::kDone);
  EXPECT_EQ(read_file(folder_ / "asked"), "requeue 4711\n");
}

TEST_F(RequeueTest, WithoutAJobThereIsNothingToAsk) {
  scontrol_does("echo asked > " + (folder_ / "asked").string());
  ::unsetenv("SLURM_JOB_ID");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(requeue_job(), Requeued::kNotUnderSlurm);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "asked"));
}

TEST_F(RequeueTest, SaysWhyTheJobIsNotQueuedAgain) {
  EXPECT_THAT(failure(), AllOf(HasSubstr("scontrol requeue 4711 cannot be started"), HasSubstr("No such file")));
  scontrol_does("exit 7");
  EXPECT_THAT(failure(), HasSubstr("ended with exit code 7"));
  scontrol_does("kill -9 $$");
  EXPECT_THAT(failure(), HasSubstr("ended by signal 9"));
  scontrol_does("while :; do :; done");
  EXPECT_THAT(failure(std::chrono::milliseconds(300)), HasSubstr("has not ended within 300 ms"));
}

}  // namespace
}  // namespace tandem::app
