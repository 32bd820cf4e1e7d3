// Plugins that are none, and plugins whose environments break while they run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "bad_input.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

// Two environments, 8 steps of each an update, a checkpoint after each.
std::vector<std::string> train(const std::string& env, const char* more = "") {
  return split(concat("train --plugin @plugins/faulty.so --env ", env,
                      " --num-envs 2 --rollout-steps 8 --minibatches 2 --epochs 1 --total-steps 160 --run-dir run "
                      "--quiet --set checkpoint.every_updates=1 ",
                      more));
}

enum class Breaks { kAtOnce, kLater };

struct BadEnv {
  const char* name;
  Breaks breaks;
  std::vector<std::string> words;
};
void PrintTo(const BadEnv& env, std::ostream* out) { *out << env.name; }

class BadPluginEnvTest : public ::testing::TestWithParam<BadEnv> {};

TEST_P(BadPluginEnvTest, IsNamedAndEarlierCheckpointsStay) {
  const TemporaryFolder folder;
  std::vector<std::string> words = GetParam().words;
  words.emplace_back(concat(GetParam().name, "-v0: environment "));
  expect_refusal(tandem(folder.path(), train(concat(GetParam().name, "-v0"))), kRunFailed, words);
  if (GetParam().breaks == Breaks::kLater) {
    for (const int updates : {1, 2, 3})
      expect_success(tandem(folder.path(), {"inspect", checkpoint_of("run", updates)}));
    EXPECT_THAT(
        expect_success(tandem(folder.path(), split("inspect run"))),
        ::testing::AllOf(::testing::HasSubstr("state    failed"), ::testing::HasSubstr(GetParam().words.front())));
    // It goes on from there, to the same fault.
    expect_refusal(tandem(folder.path(), split("resume run --quiet --set checkpoint.every_seconds=3600")), kRunFailed,
                   GetParam().words);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadPluginEnvTest,
    ::testing::Values(BadEnv{"ThrowsInReset", Breaks::kAtOnce, {"reset()", "no licence for the simulator"}},
                      BadEnv{"ThrowsInStep", Breaks::kLater, {"in step 6 of its episode", "lost its window"}},
                      BadEnv{"ThrowsAnInt", Breaks::kAtOnce, {"in step 1 of its episode", "not a std::exception"}},
                      BadEnv{"NanObservation", Breaks::kLater, {"in step 6", "element 1", "'hand'", "nan"}},
                      BadEnv{"InfiniteObservation", Breaks::kAtOnce, {"reset()", "element 0", "'hand'", "inf"}},
                      BadEnv{"NanReward", Breaks::kLater, {"in step 6", "reward", "nan"}},
                      BadEnv{
                          "ShortObservation", Breaks::kLater, {"in step 6", "'hand'", "1 elements", "the spec says 2"}},
                      BadEnv{"ThrowsInSave", Breaks::kLater, {"save()", "cannot be frozen now"}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(BadPluginTest, EnvironmentsThatFailAreMadeAnewAsOftenAsAskedFor) {
  for (const char* algo : {"ppo --minibatches 2 --epochs 1", "impala --workers 1"}) {
    const TemporaryFolder folder;
    const auto with = [&](const char* restarts) {
      return split(concat("train --algo ", algo, " --plugin @plugins/faulty.so --env ThrowsInStep-v0 --num-envs 2 ",
                          "--rollout-steps 8 --total-steps 160 --run-dir run", restarts,
                          " --quiet --set env_restarts=", restarts));
    };
    expect_success(tandem(folder.path(), with("6")));
    EXPECT_THAT(read_text(folder / "run6/log.txt"),
                ::testing::AllOf(::testing::HasSubstr("(6 of 6 times)"), ::testing::HasSubstr("lost its window"),
                                 ::testing::HasSubstr("ThrowsInStep-v0")));
    expect_refusal(tandem(folder.path(), with("5")), kRunFailed, {"lost its window", "failed 5 times before"});
  }
}

// Its thread cannot be ended; the process can.
TEST(BadPluginTest, AnEnvironmentThatHangsEndsTheRunWithinItsDeadline) {
  struct Case {
    const char *algo, *thread;
    std::vector<std::string> words;
  };
  for (const auto& [algo, thread, words] :
       {Case{"impala --workers 2 --devices cpu:2 --num-envs 4 --set impala.batches_per_update=1 --set "
             "impala.stall_timeout=2",
             "rollout ",
             {" for ", "came so far, the last from rollout worker", "have not ended in time: rollout "}},
        Case{"ppo --devices cpu:2 --num-envs 4 --set ppo.stall_timeout=2",
             "(Hangs-v0, environments ",
             {"in one step: env group ", "2 s are allowed (ppo.stall_timeout)",
              "2 of 2 threads 'replica' have not come back in time"}}}) {
    const TemporaryFolder folder;
    expect_refusal(tandem(folder.path(),
                          split(concat("train --algo ", algo, " --plugin @plugins/faulty.so --env ",
                                       "Hangs-v0 --rollout-steps 8 --total-steps 100000 --run-dir run ", "--quiet"))),
                   kRunFailed, words);
    EXPECT_THAT(expect_success(tandem(folder.path(), split("inspect run"))),
                ::testing::AllOf(::testing::HasSubstr("state    failed"), ::testing::HasSubstr(thread)));
  }
}

TEST(BadPluginTest, AnEnvironmentThatCannotLoadItsStateLeavesTheCheckpoints) {
  const TemporaryFolder folder;
  expect_success(tandem(folder.path(), train("ThrowsInLoad-v0")));
  expect_refusal(tandem(folder.path(), split("resume run --quiet --total-steps 320")), kRunFailed,
                 {"ThrowsInLoad-v0: environment 0 of 2 in load()", "bytes of another simulator"});
  expect_success(tandem(folder.path(), split("inspect run")));
}

TEST(BadPluginTest, AFileThatIsNoPluginIsNamedForWhatItIs) {
  const TemporaryFolder folder;
  write_text(folder / "script.so", "print('hello')\n");
  write_text(folder / "cut.so",
             "\x7f"
             "ELF");
  const auto refused = [&](const std::string& plugin, std::vector<std::string> words) {
    if (!plugin.starts_with('@')) words.push_back(plugin);
    expect_refusal(tandem(folder.path(), {"train", "--plugin", plugin, "--env", "Good-v0", "--run-dir", "run"}),
                   kUserCanFixIt, words);
    expect_refusal(tandem(folder.path(), {"envs", "--plugin", plugin}), kUserCanFixIt, words);
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  };
  refused("gone.so", {"does not exist"});
  refused("script.so", {"is not a shared object"});
  refused("cut.so", {"is cut off or damaged", "has 4 bytes in all", "copy it again"});
  // Loading this one would end the process by SIGBUS.
  const std::string whole = read_text(std::filesystem::path(TEST_PLUGINS) / "faulty.so");
  write_text(folder / "half.so", whole.substr(0, whole.size() / 2));
  refused("half.so", {"is cut off or damaged", concat("has ", whole.size() / 2, " bytes in all")});
  refused("@plugins", {"is a folder"});
  refused("@plugins/no_entry_point.so", {"no environments", "TANDEM_ENV_PLUGIN"});
}

TEST(BadPluginTest, WithoutAnEnvironmentThoseOfThePluginAreNamed) {
  const TemporaryFolder folder;
  expect_refusal(tandem(folder.path(), {"train", "--plugin", "@plugins/faulty.so"}), kUserCanFixIt,
                 {"name an environment", "the plugins bring ", "ThrowsInStep-v0"});
}

TEST(BadPluginTest, TheFaultIsThatOfWhatIsNotThere) {
  const TemporaryFolder folder;
  expect_refusal(tandem(folder.path(), split("train --plugin gone.so --env CartPole-v1")), kUserCanFixIt,
                 {"plugins = [", "(--plugin)", "does not exist"});
  expect_refusal(tandem(folder.path(), train("Goood-v0")), kUserCanFixIt, {"'Goood-v0'", "did you mean 'Good-v0'"});
}

// The run is whole, and says what it lacks.
TEST(BadPluginTest, APluginThatIsGoneAtAResumeIsNamedAndTheRunStays) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(std::filesystem::path(TEST_PLUGINS) / "faulty.so", folder / "mine.so");
  std::vector<std::string> words = train("Good-v0");
  words[2] = "mine.so";
  expect_success(tandem(folder.path(), words));
  std::filesystem::rename(folder / "mine.so", folder / "moved.so");
  for (const char* command : {"resume run --total-steps 320", "eval run", "export run -o policy.pt"}) {
    expect_refusal(tandem(folder.path(), split(command)), kUserCanFixIt, {"mine.so", "does not exist"});
  }
  expect_success(tandem(folder.path(), split("inspect run")));
  expect_success(tandem(folder.path(), split("eval run --episodes 1 --plugin moved.so")));
}

// A run of Good-v0 in "run", whose plugin is mine.so of the same folder.
void train_with_own_plugin(const TemporaryFolder& folder) {
  std::filesystem::copy_file(std::filesystem::path(TEST_PLUGINS) / "faulty.so", folder / "mine.so");
  std::vector<std::string> words = train("Good-v0", "--shards 2");
  words[2] = "mine.so";
  expect_success(tandem(folder.path(), words));
}

const std::vector<const char*> kUsesOfARun = {
    "resume run --total-steps 320 --quiet", "resume run --total-steps 320 --ranks 2 --quiet",
    "train --resume must --run-dir run --total-steps 320 --quiet", "eval run --episodes 1", "export run -o policy.pt"};

// traced.so leaves a file behind when it is loaded.
TEST(BadPluginTest, AnotherFileInThePlaceOfARecordedPluginIsNotLoadedUnasked) {
  const TemporaryFolder folder;
  train_with_own_plugin(folder);
  std::filesystem::copy_file(std::filesystem::path(TEST_PLUGINS) / "traced.so", folder / "mine.so",
                             std::filesystem::copy_options::overwrite_existing);
  for (const char* command : kUsesOfARun) {
    expect_refusal(tandem(folder.path(), split(command)), kUserCanFixIt,
                   {"mine.so is named by ", " alone and was not loaded: it is not the file that the run recorded",
                    "SHA-256", concat(" --plugin ", (folder / "mine.so").string())});
  }
  expect_success(tandem(folder.path(), split("plot run -o curve.png")));
  EXPECT_FALSE(std::filesystem::exists(folder / "loaded"));
  expect_refusal(tandem(folder.path(), split("eval run --plugin mine.so")), kUserCanFixIt, {"TANDEM_ENV_PLUGIN"});
  EXPECT_TRUE(std::filesystem::exists(folder / "loaded")) << "the user has named it";
}

TEST(BadPluginTest, APluginThatWasBuiltAnewIsNamedOnceAndRecorded) {
  const TemporaryFolder folder;
  train_with_own_plugin(folder);
  write_text(folder / "mine.so", read_text(folder / "mine.so") + "built anew");
  expect_success(tandem(folder.path(), split("eval run --episodes 1 --plugin mine.so")));
  EXPECT_THAT(expect_success(tandem(folder.path(), split("resume run --total-steps 320 --plugin mine.so"))),
              ::testing::HasSubstr("the plugins are others"));
  for (const char* command : kUsesOfARun) expect_success(tandem(folder.path(), split(command)));
}

TEST(BadPluginTest, WhatOthersMayWriteIsNotLoadedUnasked) {
  const TemporaryFolder folder;
  train_with_own_plugin(folder);
  using std::filesystem::perms;
  const auto refused = [&](const std::filesystem::path& path, const std::string& words) {
    for (const char* command : kUsesOfARun)
      expect_refusal(tandem(folder.path(), split(command)), kUserCanFixIt, {path.string(), words, " --plugin "});
    expect_success(tandem(folder.path(), split("eval run --episodes 1 --plugin mine.so")));
  };
  for (const std::filesystem::path& path : {folder / "mine.so", folder.path()}) {
    std::filesystem::permissions(path, perms::others_write, std::filesystem::perm_options::add);
    refused(path, "may be written by everybody");
    std::filesystem::permissions(path, perms::others_write, std::filesystem::perm_options::remove);
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((folder / "mine.so").c_str(), 65534, 65534), 0);
    refused(folder / "mine.so", "belongs to another user (65534; this is 0)");
  }
}

TEST(BadPluginTest, ARunFolderThatOthersMayWriteNamesNoPlugins) {
  const TemporaryFolder folder;
  train_with_own_plugin(folder);
  std::filesystem::permissions(folder / "run", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 320")), kUserCanFixIt,
                 {"run may be written by everybody", " resume run --plugin "});
  expect_success(tandem(folder.path(), split("resume run --total-steps 320 --plugin mine.so --quiet")));
}

}  // namespace
}  // namespace tandem::process_test
