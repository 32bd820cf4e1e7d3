#include "tandem/model/files/checkpoint_store.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <optional>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write(CheckpointStore& store, std::int64_t updates, std::optional<double> score = {}, int value = 0) {
  auto writer = store.begin(updates);
  writer.write_part("model", {{"w", at::full({8}, value, at::kLong)}});
  writer.write_part("shard.0", {{"r", at::full({2}, updates, at::kLong)}});
  writer.commit({"test", "0", {{"value", value}}, {}, score});
}

// The same with a part of the checkpoint before.
void write_keeping(CheckpointStore& store, std::int64_t updates, int value = 0) {
  auto writer = store.begin(updates);
  writer.keep_part("shard.0");
  writer.write_part("model", {{"w", at::full({8}, value, at::kLong)}});
  writer.write_part("more", {{"w", at::ones({1})}});
  writer.commit({"test", "0", {{"value", value}}, {}, {}});
}

std::int64_t value_of(const Checkpoint& checkpoint) {
  checkpoint.verify();
  const auto value = checkpoint.read_part("model").at("w")[0].item<std::int64_t>();
  EXPECT_EQ(checkpoint.info().counters.at("value"), value);
  return value;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class CheckpointStoreTest : public ::testing::Test {
 protected:
  void TearDown() override { disarm_fault(); }
  TemporaryFolder folder_;
  CheckpointStore store_{folder_ / "checkpoints", {.last = 2, .best = 1}};
};

TEST_F(CheckpointStoreTest, KeepsTheLastAndTheBest) {
  EXPECT_EQ(store_.latest().has_value(), false);
  write(store_, 1, 5);
  write(store_, 2, 9);
  write(store_, 3, std::nullopt);
  write(store_, 10, 9);
  EXPECT_THAT(store_.list(), ElementsAre(3, 10));  // of equal scores the newer is the best
  write(store_, 11, 2);
  write(store_, 12, std::nan(""));
  EXPECT_THAT(store_.list(), ElementsAre(10, 11, 12));
  EXPECT_EQ(store_.latest()->updates(), 12);
  EXPECT_EQ(store_.best()->updates(), 10);
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("u000000000010", "u000000000011", "u000000000012"));
  EXPECT_THROW(CheckpointStore(folder_.path(), {.last = 0}), ConfigError);
}

TEST_F(CheckpointStoreTest, WithoutManifestItDoesNotExistAndTheNextOneRemovesIt) {
  write(store_, 1);
  {
    auto writer = store_.begin(2);
    writer.write_part("model", {{"w", at::ones({2})}});
    EXPECT_THAT(store_.list(), ElementsAre(1));
  }
  EXPECT_FALSE(fs::exists(store_.folder() / "u000000000002"));  // given up, so removed
  fs::create_directories(store_.folder() / "u000000000003");
  write_file(store_.folder() / "u000000000003" / "model.safetensors", "half");
  write_file(store_.folder() / "notes.txt", "a user's own file");
  EXPECT_EQ(store_.latest()->updates(), 1);
  write(store_, 4);
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("notes.txt", "u000000000001", "u000000000004"));
}

TEST_F(CheckpointStoreTest, WritingOneAgainReplacesItOnlyWhenTheNewOneIsWhole) {
  write(store_, 7, {}, 1);
  {
    auto writer = store_.begin(7);
    writer.write_part("model", {{"w", at::ones({2})}});
    EXPECT_EQ(value_of(*store_.latest()), 1);  // set aside, still found
  }
  EXPECT_EQ(value_of(*store_.latest()), 1);
  write(store_, 7, {}, 2);
  EXPECT_EQ(value_of(store_.open(7)), 2);
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("u000000000007"));
}

TEST_F(CheckpointStoreTest, ADamagedNewestOneIsAnErrorThatNamesTheOlderWholeOne) {
  write(store_, 1, {}, 1);
  write(store_, 2, {}, 2);
  const auto file = store_.folder() / "u000000000002" / "shard.0.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  try {
    (void)store_.latest();
    FAIL() << "fell back silently";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file.string()), HasSubstr("after 1 updates"),
                                    HasSubstr((store_.folder() / "u000000000001").string())));
  }
  store_.discard_after(1);
  EXPECT_EQ(value_of(*store_.latest()), 1);
  fs::remove(store_.folder() / "u000000000001" / "model.safetensors");
  try {
    (void)store_.latest();
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no older one is whole"));
  }
}

TEST_F(CheckpointStoreTest, AskingForOneThatIsNotThereListsThoseThatAre) {
  write(store_, 3);
  write(store_, 5);
  try {
    (void)store_.open(4);
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("3, 5"));
  }
}

TEST_F(CheckpointStoreTest, AFullDiskLeavesEarlierOnesUntouchedAndFreesWhatItTook) {
  write(store_, 1, {}, 1);
  for (const char* point : {"file.open", "file.write", "file.sync", "file.rename", "file.sync_folder"}) {
    for (int passage = 1; passage <= 3; ++passage) {
      for (const std::int64_t updates : {1, 2}) {
        arm_fault({point, passage, FaultKind::kNoSpace});
        EXPECT_THROW(write(store_, updates, {}, 9), CheckpointError) << point << " " << passage;
        disarm_fault();
        EXPECT_EQ(value_of(*store_.latest()), 1) << point << " " << passage;
      }
    }
  }
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("u000000000001"));
}

TEST_F(CheckpointStoreTest, AKeptPartIsOnTheDiskOnceUntilTheLastThatHasItGoes) {
  EXPECT_THAT(store_.held(), ElementsAre());
  write(store_, 1);
  EXPECT_THAT(store_.held(), ElementsAre("model", "shard.0"));
  write_keeping(store_, 2, 2);
  const auto file = [&](const char* folder) { return store_.folder() / folder / "shard.0.safetensors"; };
  EXPECT_TRUE(fs::equivalent(file("u000000000001"), file("u000000000002")));
  for (int updates = 3; updates <= 6; ++updates) write_keeping(store_, updates, updates);
  EXPECT_THAT(store_.list(), ElementsAre(5, 6));
  EXPECT_EQ(fs::hard_link_count(file("u000000000006")), 2);
  EXPECT_EQ(value_of(store_.open(5)), 5);
  EXPECT_EQ(value_of(store_.open(6)), 6);
  EXPECT_EQ(store_.open(6).read_part("shard.0").at("r")[0].item<std::int64_t>(), 1);
  write_keeping(store_, 6, 7);  // from itself, set aside
  EXPECT_EQ(value_of(store_.open(6)), 7);
}

// A checkpoint that was moved to another disk, with a link in its place.
TEST_F(CheckpointStoreTest, WhereThereAreNoLinksAKeptPartIsCopied) {
  write(store_, 1);
  // Other tests look for what is left of Tandem there, so the name is another one.
  const fs::path other = concat("/dev/shm/kept-part-", ::getpid());
  fs::copy(store_.folder() / "u000000000001", other);
  fs::remove_all(store_.folder() / "u000000000001");
  fs::create_directory_symlink(other, store_.folder() / "u000000000001");
  write_keeping(store_, 2, 2);
  fs::remove_all(other);
  EXPECT_EQ(value_of(store_.open(2)), 2);
  EXPECT_EQ(fs::hard_link_count(store_.folder() / "u000000000002" / "shard.0.safetensors"), 1);
}

TEST_F(CheckpointStoreTest, WhatIsNotThereInItsSizeIsNotHeld) {
  write(store_, 1);
  const auto folder = store_.folder() / "u000000000001";
  fs::resize_file(folder / "shard.0.safetensors", 7);
  EXPECT_THAT(store_.held(), ElementsAre("model"));
  fs::remove(folder / "model.safetensors");
  EXPECT_THAT(store_.held(), ElementsAre());
  write_file(folder / "manifest.json", "{}");
  EXPECT_THAT(store_.held(), ElementsAre());
}

TEST_F(CheckpointStoreTest, ADiskThatIsFullWhereAPartIsKeptLeavesEarlierOnesUntouched) {
  write(store_, 1, {}, 1);
  arm_fault({"checkpoint.link", 1, FaultKind::kNoSpace});
  EXPECT_THROW(write_keeping(store_, 2), CheckpointError);
  EXPECT_EQ(value_of(*store_.latest()), 1);
  EXPECT_THAT(names_in(store_.folder()), ElementsAre("u000000000001"));
}

TEST_F(CheckpointStoreTest, ARunFolderThatWasRemovedIsNotBroughtBack) {
  CheckpointStore store(folder_ / "run/checkpoints");
  fs::create_directory(folder_ / "run");
  write(store, 1);
  fs::remove_all(folder_ / "run");
  EXPECT_THROW(write(store, 2), CheckpointError);
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// A run that trains replaces the newest checkpoint at the instant in which another process is about to look or to read.
TEST_F(CheckpointStoreTest, OneThatIsReplacedWhileItIsLookedForIsNoErrorAndTheNewerOneIsFound) {
  CheckpointStore run(folder_ / "replaced", {.last = 1, .best = 0});
  std::int64_t updates = 0;
  for (const char* point : {"checkpoint.look", "checkpoint.read"}) {
    write(run, ++updates);
    arm_fault({point, 1, FaultKind::kHang});
    std::optional<Checkpoint> found;
    std::string failure;
    std::thread reader([&] {
      try {
        found = CheckpointStore(run.folder()).latest();
      } catch (const std::exception& error) {
        failure = error.what();
      }
    });
    EXPECT_TRUE(eventually([] { return hanging_at_faults() == 1; })) << point;
    write(run, ++updates);
    disarm_fault();
    reader.join();
    EXPECT_EQ(failure, "") << point;
    ASSERT_TRUE(found.has_value()) << point;
    EXPECT_EQ(found->updates(), updates) << point;
  }
}

TEST_F(CheckpointStoreTest, ARunThatReplacesTheOnlyOneAgainAndAgainAlwaysHasOne) {
  CheckpointStore run(folder_ / "replaced", {.last = 1, .best = 0});
  write(run, 1);
  std::atomic<bool> is_over = false;
  std::string failure;
  std::thread reader([&] {
    try {
      const CheckpointStore seen(run.folder());
      while (!is_over) (void)seen.latest().value();
    } catch (const std::exception& error) {  // also std::bad_optional_access: none was found
      failure = error.what();
    }
  });
  for (int updates = 2; updates <= 100; ++updates) write(run, updates);
  is_over = true;
  reader.join();
  EXPECT_EQ(failure, "");
}

TEST_F(CheckpointStoreTest, AFolderThatCannotBeMadeIsNamed) {
  write_file(folder_ / "file", "in the way");
  CheckpointStore blocked(folder_ / "file" / "checkpoints");
  try {
    (void)blocked.begin(1);
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "file").string()));
  }
}

// Kills a process that writes checkpoint 4 (and with it prunes 1 and 2), or writes 3 again, at every passage of every
// fault point; then everything that is listed must be whole, and the run must be able to go on.
class CheckpointKillTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckpointKillTest, AnyInstantLeavesAWholeCheckpoint) {
  int kills = 0;
  for (const std::int64_t next : {4, 3}) {
    for (int passage = 1; passage <= 12; ++passage) {
      const TemporaryFolder folder;
      CheckpointStore store(folder.path(), {.last = 3, .best = 0});
      for (const int updates : {1, 2, 3}) write(store, updates, {}, updates);
      CheckpointStore strict(folder.path(), {.last = 1, .best = 0});
      const pid_t child = ::fork();
      if (child == 0) {
        arm_fault({GetParam(), passage, FaultKind::kKill});
        write_keeping(strict, next, 100);
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      ASSERT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
      kills += killed ? 1 : 0;

      const auto newest = store.latest();  // throws when the newest is damaged
      ASSERT_TRUE(newest.has_value());
      const auto value = value_of(*newest);
      EXPECT_TRUE(value == 3 || value == 100) << value;
      if (!killed) {
        EXPECT_EQ(value, 100);
      }
      for (const auto updates : store.list()) store.open(updates).verify();

      write_keeping(strict, 5, 200);
      EXPECT_THAT(names_in(folder.path()), ElementsAre("u000000000005"));
      EXPECT_EQ(value_of(*strict.latest()), 200);
      if (!killed) break;  // further passages are not reached either
    }
  }
  EXPECT_GE(kills, 2) << GetParam() << " is not passed while a checkpoint is written";
}

INSTANTIATE_TEST_SUITE_P(Points, CheckpointKillTest,
                         ::testing::Values("checkpoint.set_aside", "checkpoint.begin", "checkpoint.part_written",
                                           "checkpoint.part_kept", "checkpoint.before_manifest",
                                           "checkpoint.after_manifest", "checkpoint.before_prune", "checkpoint.prune",
                                           "checkpoint.pruned", "file.open", "file.write", "file.sync", "file.rename",
                                           "file.sync_folder", "file.done"),
                         [](const auto& point) {
                           std::string name = point.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::model
