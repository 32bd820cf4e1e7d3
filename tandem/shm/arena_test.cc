#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/shm/region.h"

namespace tandem::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<Arena> make_arena() { return std::make_shared<Arena>(Region::create(2), 1); }

TEST(ArenaTest, WhatIsGivenBackIsUsedAgainAndPutTogether) {
  const auto arena = make_arena();
  std::vector<std::shared_ptr<std::byte>> pieces;
  for (int i = 0; i < 4; ++i) pieces.push_back(arena->allocate(8192));
  const std::byte* first = pieces[0].get();
  EXPECT_EQ(pieces[3].get(), first + 3 * 8192);
  pieces[2].reset();
  pieces[0].reset();
  pieces[1].reset();  // joins both neighbours
  EXPECT_EQ(arena->allocate(3 * 8192).get(), first);
  pieces[3].reset();
  EXPECT_EQ(arena->allocate(10 * 8192).get(), first);  // the free end grows
}

TEST(ArenaTest, SizesAndRanksDoNotOverlap) {
  const std::shared_ptr<Region> region = Region::create(2);
  const auto zero = std::make_shared<Arena>(region, 0), one = std::make_shared<Arena>(region, 1);
  std::vector<std::shared_ptr<std::byte>> pieces;
  std::vector<std::size_t> sizes{1, 4096, 4097, 100'000};
  for (const auto& arena : {zero, one}) {
    for (const std::size_t size : sizes) {
      pieces.push_back(arena->allocate(size));
      std::memset(pieces.back().get(), static_cast<int>(pieces.size()), size);
    }
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t size = sizes[i % sizes.size()];
    EXPECT_EQ(std::count(pieces[i].get(), pieces[i].get() + size, static_cast<std::byte>(i + 1)), size);
  }
}

TEST(ArenaTest, ThreadsMayAllocateAndFree) {
  const auto arena = make_arena();
  std::vector<std::jthread> threads;
  for (int number = 1; number <= 4; ++number) {
    threads.emplace_back([&, number] {
      for (std::size_t i = 0; i < 300; ++i) {
        const std::size_t size = i * 37 % 20'000 + 1;
        const auto memory = arena->allocate(size);
        std::memset(memory.get(), number, size);
        EXPECT_EQ(std::count(memory.get(), memory.get() + size, static_cast<std::byte>(number)), size);
      }
    });
  }
}

TEST(ArenaTest, MoreThanTheMachineHasIsAnError) {
  const auto arena = make_arena();
  EXPECT_THROW((void)arena->allocate(std::numeric_limits<std::uint64_t>::max()), RunError);
  const std::uint64_t most = free_memory() / 4096 * 4096;
  try {
    (void)arena->allocate(most + (64 << 20));
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("MiB more are needed"), HasSubstr("MiB are free")));
  }
  EXPECT_NE(arena->allocate(4096), nullptr);
}

TEST(ArenaTest, ShortageInTheMiddleGivesBackWhatWasTaken) {
  const std::shared_ptr<Region> region = Region::create(2);
  const auto arena = std::make_shared<Arena>(region, 1);
  const auto pages = [&] {
    struct stat status {};
    EXPECT_EQ(::fstat(region->descriptor(), &status), 0);
    return status.st_blocks;
  };
  const auto before = pages();
  arm_fault({.point = "shm.back", .passage = 2, .kind = FaultKind::kNoSpace});
  EXPECT_THROW((void)arena->allocate(40 << 20), RunError);
  EXPECT_EQ(pages(), before);
  const auto memory = arena->allocate(40 << 20);
  std::memset(memory.get(), 1, 40 << 20);
}

class FreeMemoryTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  [[nodiscard]] std::uint64_t free() const { return free_memory(folder_ / "proc", folder_ / "cgroup"); }

 private:
  TemporaryFolder folder_;
};

TEST_F(FreeMemoryTest, IsWhatTheHostHasAvailable) {
  write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable:  300 kB\n");
  EXPECT_EQ(free(), 300U * 1024);
}

TEST_F(FreeMemoryTest, IsTheLeastOfVersionTwosNestedGroups) {
  write("proc/meminfo", "MemAvailable: 300 kB\n");
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("cgroup/outer/memory.max", "5000\n");
  write("cgroup/outer/memory.current", "4000\n");
  write("cgroup/outer/memory.stat", "anon 7\ninactive_file 500\nactive_file 100\n");
  write("cgroup/outer/inner/memory.max", "max\n");
  write("cgroup/outer/inner/memory.current", "3000\n");
  EXPECT_EQ(free(), 1500U);
}

TEST_F(FreeMemoryTest, KnowsVersionOne) {
  write("proc/meminfo", "MemAvailable: 300 kB\n");
  write("proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n");
  write("cgroup/memory/x/memory.limit_in_bytes", "7000\n");
  write("cgroup/memory/x/memory.usage_in_bytes", "9000\n");
  EXPECT_EQ(free(), 0U);
  write("cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 4000\n");
  EXPECT_EQ(free(), 2000U);
}

}  // namespace
}  // namespace tandem::shm
