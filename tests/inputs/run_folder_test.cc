// Run folders that cannot be used, or break while they are.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "bad_input.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;

const char* const kTrain = "train --env CartPole-v1 --total-steps 768 --quiet --run-dir run";

// From now on root, too, may only do what the permissions of a file say. Others already must.
void heed_permissions() {
  constexpr int kOverrideWhenWriting = 1, kOverrideWhenReading = 2;  // CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
  ::prctl(PR_CAPBSET_DROP, kOverrideWhenWriting);
  ::prctl(PR_CAPBSET_DROP, kOverrideWhenReading);
}

// The names of all files of a folder with their content, to see that nothing has changed.
std::vector<std::pair<std::string, std::string>> contents(const fs::path& folder) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.emplace_back(entry.path().string(), read_text(entry.path()));
  }
  std::ranges::sort(files);
  return files;
}

TEST(BadRunFolderTest, ARunIsNotOverwritten) {
  const TemporaryFolder folder;
  copy_of_run(folder.path());
  const auto before = contents(folder.path());
  expect_refusal(tandem(folder.path(), split(kTrain)), kUserCanFixIt,
                 {"run holds a run already", "tandem resume run", "--run-dir"});
  EXPECT_EQ(contents(folder.path()), before);
}

TEST(BadRunFolderTest, ARunThatFailedBeforeItsFirstUpdateIsNoObstacle) {
  const TemporaryFolder folder;
  const auto train = [&](const char* env, const char* more) {
    return tandem(folder.path(), split(concat("train --plugin @plugins/faulty.so --env ", env, " --num-envs 2 ", more,
                                              " --rollout-steps 8 --minibatches 2 --total-steps 32 --run-dir run ",
                                              "--set log.tensorboard=true")));
  };
  expect_refusal(train("ThrowsInReset-v0", ""), kRunFailed, {"no licence for the simulator"});
  expect_refusal(train("ThrowsAnInt-v0", "--profile"), kRunFailed, {"not a std::exception"});
  EXPECT_THAT(expect_success(train("Good-v0", "--resume never")),
              ::testing::HasSubstr("run held a run that ended before its first update; this one takes its place; its "
                                   "settings are in config.yaml.2"));
  EXPECT_THAT(read_text(folder / "run/config.yaml"), ::testing::HasSubstr("Good-v0"));
  EXPECT_THAT(read_text(folder / "run/config.yaml.1"), ::testing::HasSubstr("ThrowsInReset-v0"));
  EXPECT_THAT(read_text(folder / "run/config.yaml.2"), ::testing::HasSubstr("ThrowsAnInt-v0"));
  EXPECT_THAT(read_text(folder / "run/log.txt"), ::testing::HasSubstr("no licence for the simulator"));
  expect_refusal(train("Good-v0", ""), kUserCanFixIt, {"run holds a run already"});
}

TEST(BadRunFolderTest, ACurrentFolderThatWasDeletedIsSaid) {
  const TemporaryFolder folder;
  static fs::path gone;
  for (const char* arguments : {"version", "envs", "train --env CartPole-v1 --total-steps 128"}) {
    gone = folder / "gone";
    fs::create_directory(gone);
    Command command = tandem(gone, split(arguments));
    command.prepare = [] { ::rmdir(gone.c_str()); };
    expect_refusal(command, kUserCanFixIt, {"current directory", "No such file or directory", "(cd)"});
  }
}

TEST(BadRunFolderTest, FilesOfOthersAreNotMixedWithARun) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  write_text(folder / "run/thesis.tex", "years of work");
  expect_refusal(tandem(folder.path(), split(kTrain)), kUserCanFixIt, {"run holds files", "empty folder"});
  expect_refusal(tandem(folder.path(), split("resume run")), kUserCanFixIt, {"run is no run folder", "config.yaml"});
  EXPECT_EQ(contents(folder.path()).size(), 1U);
}

// It has what a run of ours has before its first update, and none of ours made it.
TEST(BadRunFolderTest, AFolderOfAnotherProgramIsLeftAsItIs) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  for (const char* name : {"config.yaml", "log.txt", "events.out.tfevents.1.host"})
    write_text(folder / "run" / name, "of another trainer");
  const auto before = contents(folder.path());
  expect_refusal(tandem(folder.path(), split(kTrain)), kUserCanFixIt, {"run holds a run already"});
  EXPECT_EQ(contents(folder.path()), before);
}

TEST(BadRunFolderTest, AFileInItsPlaceOrAboveItIsNamed) {
  const TemporaryFolder folder;
  write_text(folder / "run", "a file");
  expect_refusal(tandem(folder.path(), split(kTrain)), kUserCanFixIt, {"run is a file", "--run-dir"});
  expect_refusal(tandem(folder.path(), split("train --env CartPole-v1 --run-dir run/below --quiet")), kRunFailed,
                 {"run/below", "Not a directory", "check the path"});
  EXPECT_EQ(read_text(folder / "run"), "a file");
}

TEST(BadRunFolderTest, AFolderThatSomeoneElseIsWritingIsLeftAlone) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const int lock = ::open((run / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                 {"run is in use by process", "--run-dir"});
  ::close(lock);
}

TEST(BadRunFolderTest, AFolderWithoutPermissionToWriteIsNamed) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(run, fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(run / ".lock", fs::perms::owner_read);
  const auto before = contents(run);
  const auto refused = [&](const char* arguments, const std::vector<std::string>& words) {
    Command command = tandem(folder.path(), split(arguments));
    command.prepare = heed_permissions;
    expect_refusal(command, kRunFailed, words);
  };
  refused("train --env CartPole-v1 --quiet --run-dir closed", {"closed", "Permission denied", "choose another"});
  refused("train --env CartPole-v1 --quiet --run-dir closed/below", {"closed/below", "Permission denied"});
  refused("resume run --total-steps 1024", {"run", "Permission denied"});
  refused("export run -o closed/policy.pt", {"closed/policy", "Permission denied"});
  refused("plot run -o closed/curve.png", {"closed/curve.png", "Permission denied"});
  EXPECT_EQ(contents(run), before);
  expect_success(tandem(folder.path(), split("eval run --episodes 1")));
  for (const char* name : {"closed", "run"}) fs::permissions(folder / name, fs::perms::owner_all);
}

TEST(BadRunFolderTest, CheckpointsThatCannotBeReadAreNamed) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  fs::permissions(checkpoint_of(run, 3) / "state.safetensors", fs::perms::none);
  Command command = tandem(folder.path(), split("resume run --total-steps 1024"));
  command.prepare = heed_permissions;
  expect_refusal(command, kRunFailed, {"u000000000003/state.safetensors", "Permission denied"});
}

Command on_a_full_disk(Command command) {
  command.environment = {"TANDEM_FAULT=file.write:1:enospc"};
  return command;
}

TEST(BadRunFolderTest, AFullDiskIsSaidAtTheFirstFile) {
  const TemporaryFolder folder;
  expect_refusal(on_a_full_disk(tandem(folder.path(), split(kTrain))), kRunFailed,
                 {"run/config.yaml", "No space left on device", "free some space"});
}

TEST(BadRunFolderTest, AFullDiskIsSaidAtAnExport) {
  const TemporaryFolder folder;
  copy_of_run(folder.path());
  write_text(folder / "policy.safetensors", "an earlier one");
  expect_refusal(on_a_full_disk(tandem(folder.path(), split("export run -o policy.safetensors"))), kRunFailed,
                 {"policy.safetensors", "No space left on device"});
  EXPECT_EQ(read_text(folder / "policy.safetensors"), "an earlier one");
}

// A file system of 600 kB fills up in the middle of a checkpoint of the run.
TEST(BadRunFolderTest, ADiskThatFillsUpLeavesTheCheckpointsBefore) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "small");
  // Mounted for these processes only; the outcome is looked at before they end.
  const char* const script =
      "mount -t tmpfs -o size=600k none small || exit 77\n"
      "\"$0\" train --env CartPole-v1 --total-steps 25600 --quiet --run-dir small/run "
      "--set checkpoint.every_updates=1 --set checkpoint.keep_last=1000\n"
      "echo \"train $?\"; ls small/run/checkpoints\n"
      "for each in small/run/checkpoints/u*; do \"$0\" eval $each --episodes 1 >&2; echo \"eval $?\"; done";
  const bool is_root = ::geteuid() == 0;
  const Ended outcome = run({.program = "unshare",
                             .arguments = {is_root ? "-m" : "-rm", "sh", "-c", script, TANDEM_PROGRAM},
                             .folder = folder.path()});
  if (outcome.exit_code == 77 || outcome.exit_code == 1) {
    GTEST_SKIP() << "this machine lets tests mount nothing: " << outcome.err;
  }
  EXPECT_NE(outcome.err.find("No space left on device"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out.substr(0, outcome.out.find("eval")),
            "train 3\nu000000000001\nu000000000002\nu000000000003\nu000000000004\n")
      << outcome.err;
  EXPECT_EQ(outcome.out.substr(outcome.out.find("eval")), "eval 0\neval 0\neval 0\neval 0\n");
}

// As above where nothing can be mounted: the part that outgrows the limit fails in the middle.
TEST(BadRunFolderTest, AWriteThatFailsHalfwayLeavesTheCheckpointsBefore) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  Command command = tandem(folder.path(), split("resume run --total-steps 1024"));
  command.prepare = [] {
    const rlimit limit{50'000, 50'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  expect_refusal(command, kRunFailed, {"state.safetensors", "File too large"});
  EXPECT_FALSE(fs::exists(checkpoint_of(run, 4)));
  for (const int updates : {1, 2, 3}) expect_usable(checkpoint_of(run, updates));
  expect_success(tandem(folder.path(), split("resume run --total-steps 1024 --quiet")));
}

}  // namespace
}  // namespace tandem::process_test
