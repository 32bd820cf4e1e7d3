#include "tandem/base/atomic_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/armed_fault.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

const std::vector<std::string> kPoints{"file.open", "file.write", "file.sync", "file.rename", "file.sync_folder"};

std::string message_of(void (*action)(const std::filesystem::path&), const std::filesystem::path& path) {
  try {
    action(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

TEST(AtomicFileTest, AFileThatThePartWasLinkedToIsNotWritten) {
  const TemporaryFolder folder;
  write_file(folder / "others", "theirs");
  std::filesystem::create_symlink(folder / "others", folder / "a.part");
  write_file(folder / "a", "mine");
  EXPECT_EQ(read_file(folder / "others"), "theirs");
  EXPECT_EQ(read_file(folder / "a"), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
}

TEST(AtomicFileTest, ReplacesTheWholeContent) {
  const TemporaryFolder folder;
  write_file(folder / "a", "the first, longer content");
  write_file(folder / "a", std::string("b\0c", 3));
  EXPECT_EQ(read_file(folder / "a"), std::string("b\0c", 3));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.part"));
}

TEST(AtomicFileTest, ReadsBackEverySizeAroundABuffer) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 70000}) {
    std::string content(size, 'x');
    if (size > 0) content.back() = 'y';
    write_file(folder / "a", content);
    EXPECT_EQ(read_file(folder / "a"), content) << size;
  }
  EXPECT_FALSE(read_file("/proc/self/status").empty());  // says that it has no bytes
}

TEST(AtomicFileTest, WithoutACommitTheOldContentStays) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(file.size(), 3u);
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.part"));
}

TEST(AtomicFileTest, APartThatACrashLeftIsReplacedWhole) {
  const TemporaryFolder folder;
  write_file(folder / "a.part", "longer than what comes");
  write_file(folder / "a", "short");
  EXPECT_EQ(read_file(folder / "a"), "short");
}

TEST(AtomicFileTest, AFullDiskAtAnyStepLeavesAWholeFile) {
  for (const std::string& point : kPoints) {
    const TemporaryFolder folder;
    write_file(folder / "a", "old");
    arm_fault({.point = point, .kind = FaultKind::kNoSpace});
    const std::string message = message_of([](const auto& path) { write_file(path, "new"); }, folder / "a");
    EXPECT_NE(message.find("No space left on device"), std::string::npos) << point << ": " << message;
    EXPECT_NE(message.find("free some space"), std::string::npos) << message;
    EXPECT_EQ(read_file(folder / "a"), point == "file.sync_folder" ? "new" : "old") << point;
    EXPECT_FALSE(std::filesystem::exists(folder / "a.part")) << point;
    write_file(folder / "a", "later");
    EXPECT_EQ(read_file(folder / "a"), "later");
  }
}

TEST(AtomicFileDeathTest, AKillAtAnyStepLeavesAWholeFile) {
  std::vector<std::string> points = kPoints;
  points.emplace_back("file.done");
  for (const std::string& point : points) {
    const TemporaryFolder folder;
    write_file(folder / "a", "old");
    EXPECT_EXIT(
        {
          arm_fault({.point = point, .kind = FaultKind::kKill});
          write_file(folder / "a", "new");
        },
        ::testing::KilledBySignal(SIGKILL), "")
        << point;
    const bool renamed = point == "file.sync_folder" || point == "file.done";
    EXPECT_EQ(read_file(folder / "a"), renamed ? "new" : "old") << point;
    write_file(folder / "a", "later");  // also over the part that the dead process left
    EXPECT_EQ(read_file(folder / "a"), "later");
  }
}

TEST(AtomicFileTest, SaysWhatFailedAndWhatToDo) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  const auto write = [](const std::filesystem::path& path) { write_file(path, "x"); };
  const auto read = [](const std::filesystem::path& path) { (void)read_file(path); };
  const std::string missing = message_of(write, folder / "no/a");
  EXPECT_NE(missing.find("cannot create " + (folder / "no/a.part").string() + ": No such file"), std::string::npos)
      << missing;
  EXPECT_NE(missing.find("does not exist"), std::string::npos) << missing;
  EXPECT_NE(message_of(write, folder / "file/a").find("a folder and a file are mixed up"), std::string::npos);
  EXPECT_NE(message_of(read, folder / "no").find("cannot open"), std::string::npos);
  EXPECT_NE(message_of(read, folder.path()).find("Is a directory"), std::string::npos);
}

TEST(FaultPointTest, FiresOnceAtTheNamedPassage) {
  arm_fault({.point = "here", .passage = 3, .kind = FaultKind::kThrow});
  fault_point("here");
  fault_point("elsewhere");
  fault_point("here");
  EXPECT_THROW(fault_point("here"), InjectedFault);
  fault_point("here");
}

TEST(FaultPointTest, DisarmedItDoesNothing) {
  arm_fault({.point = "here"});
  disarm_fault();
  fault_point("here");
  EXPECT_EQ(fault_errno("here"), 0);
}

TEST(FaultPointTest, AnArmedFaultOfATestEndsWithItsScope) {
  {
    const ArmedFault fault({.point = "here", .passage = 2});
    fault_point("here");
  }
  fault_point("here");
  {
    const ArmedFault fault({.point = "here"});
    EXPECT_THROW(fault_point("here"), InjectedFault);
  }
}

TEST(FaultPointTest, AnErrnoWhereThereIsNoSystemCallIsAnError) {
  arm_fault({.point = "here", .kind = FaultKind::kNoSpace});
  EXPECT_THROW(fault_point("here"), InjectedFault);
  arm_fault({.point = "here", .kind = FaultKind::kNoSpace});
  EXPECT_EQ(fault_errno("here"), ENOSPC);
}

TEST(FaultPointTest, WhoHangsStaysUntilTheFaultIsDisarmed) {
  arm_fault(parse_fault("here:1:hang"));
  std::atomic<bool> passed{false};
  std::jthread hangs([&] {
    fault_point("here");
    passed = true;
  });
  ASSERT_TRUE(eventually([] { return hanging_at_faults() == 1; }));
  fault_point("here");  // fires once
  arm_fault({.point = "elsewhere"});
  EXPECT_EQ(hanging_at_faults(), 1u);
  EXPECT_FALSE(passed);
  disarm_fault();
  hangs.join();
  EXPECT_TRUE(passed);
}

TEST(FaultPointTest, ReadsItsSpecification) {
  const Fault fault = parse_fault("checkpoint.after_part:12:enospc");
  EXPECT_EQ(fault.point, "checkpoint.after_part");
  EXPECT_EQ(fault.passage, 12);
  EXPECT_EQ(fault.kind, FaultKind::kNoSpace);
  EXPECT_EQ(parse_fault("a:1:kill").kind, FaultKind::kKill);
  EXPECT_EQ(parse_fault("a:b:1:throw").point, "a:b");
  for (const char* text : {"", "a", "a:1", ":1:kill", "a:0:kill", "a:-1:kill", "a:x:kill", "a:1x:kill", "a:1:die",
                           "::", "a:99999999999:kill", ":kill"}) {
    EXPECT_THROW((void)parse_fault(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace tandem
