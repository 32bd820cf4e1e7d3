// `tandem export` to files that run elsewhere, and --check, which runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::HasSubstr;

// A short run, whose policy is as good as any for this.
std::string trained(const TemporaryFolder& folder, const std::string& env, std::vector<std::string> more = {}) {
  std::string run = (folder.path() / env).string();
  std::vector<std::string> words{"train", "--env", env, "--run-dir", run, "--num-envs", "2", "--rollout-steps", "16"};
  words.insert(words.end(), {"--total-steps", "64", "--set", "policy.hidden=8", "--minibatches", "2", "--epochs", "1"});
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run_captured(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return run;
}

TEST(ExportProgramTest, ARunIsExportedAsOnnxAndAsAHeader) {
  const TemporaryFolder folder;
  const std::string run = trained(folder, "CartPole-v1");
  const std::string onnx = (folder.path() / "pole.onnx").string(), header = (folder.path() / "pole.h").string();
  const Outcome first = run_captured({"export", run, "-o", onnx});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, onnx + "\n");
  EXPECT_THAT(read_file(onnx), AllOf(HasSubstr("CartPole-v1"), HasSubstr("ppo"), HasSubstr(run)));
  EXPECT_EQ(run_captured({"export", run, "-o", header}).code, 0);
  EXPECT_THAT(read_file(header), AllOf(HasSubstr("namespace tandem_pole"), HasSubstr("// env: CartPole-v1")));
  EXPECT_THAT(run_captured({"export", run, "-o", "pole.txt"}).err, HasSubstr(".onnx, .h, .pt, .safetensors"));
}

TEST(ExportProgramTest, CheckRunsTheFileBesideThePolicy) {
  const TemporaryFolder folder;
  const std::string run = trained(folder, "Pendulum-v1", {"--set", "normalize.observations=true"});
  const Outcome header = run_captured({"export", run, "-o", folder.path() / "arm.h", "--check"});
  EXPECT_EQ(header.code, 0) << header.err;
  EXPECT_THAT(header.out, HasSubstr("1000 observations have the trained policy's bits"));
  const Outcome script = run_captured({"export", run, "-o", folder.path() / "arm.pt", "--check"});
  EXPECT_EQ(script.code, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("1000 observations are the trained policy's"));
  EXPECT_THAT(run_captured({"export", run, "-o", folder.path() / "arm.safetensors", "--check"}).err,
              HasSubstr("has weights alone"));
}

TEST(ExportProgramTest, CheckTakesWhatAPolicyRemembersAndWhatIsMasked) {
  const TemporaryFolder folder;
  const std::string run = trained(folder, "MaskedCartPole-v1", {"--set", "policy.recurrent=lstm"});
  const Outcome outcome = run_captured({"export", run, "-o", folder.path() / "pole.h", "--check"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("bits"));
}

// A Python without onnxruntime, and a PATH without a compiler.
TEST(ExportProgramTest, WhatIsMissingForACheckIsNamedWithTheWayToGetIt) {
  const TemporaryFolder folder;
  const std::string run = trained(folder, "CartPole-v1");
  const std::filesystem::path python = folder.path() / "python";
  write_file(python, "#!/bin/sh\necho no module onnxruntime\nexit 9\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Outcome onnx =
      run_captured({"export", run, "-o", folder.path() / "p.onnx", "--check", "--python", python.string()});
  EXPECT_EQ(onnx.code, 2);
  EXPECT_THAT(onnx.err, HasSubstr("-m pip install onnxruntime"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "p.onnx"));
}

}  // namespace
}  // namespace tandem::app
