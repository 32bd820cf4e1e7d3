#include "tandem/concurrency/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tandem/base/testing/temporary_folder.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UsableCoresTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  [[nodiscard]] KernelFiles files() const {
    return {.proc = folder_ / "proc", .control_groups = folder_ / "cgroup", .nodes = folder_ / "node"};
  }
  [[nodiscard]] UsableCores usable() const { return usable_cores(files()); }

 private:
  TemporaryFolder folder_;
};

TEST_F(UsableCoresTest, WithoutAQuotaAreThoseThatTheProcessIsBoundTo) {
  EXPECT_EQ(usable().whole(), usable().bound);
  write("proc/self/cgroup", "0::/\n");
  write("cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(usable().whole(), usable().bound);
  std::jthread bound([this] {
    ASSERT_TRUE(bind_this_thread({::sched_getcpu()}));
    EXPECT_EQ(usable().whole(), 1);
    EXPECT_EQ(usable().describe(), "1 core");
  });
}

TEST_F(UsableCoresTest, TheLeastQuotaOfVersionTwosNestedGroupsCounts) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("cgroup/outer/cpu.max", "50000 100000\n");
  write("cgroup/outer/inner/cpu.max", "max 100000\n");
  EXPECT_EQ(usable().quota, 0.5);
  EXPECT_EQ(usable().whole(), 1);
  write("cgroup/outer/inner/cpu.max", "20000 100000\n");
  EXPECT_EQ(usable().quota, 0.2);
}

TEST_F(UsableCoresTest, KnowsVersionOneWithSeveralControllersInAHierarchy) {
  write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/x\n");
  write("cgroup/memory/x/cpu.cfs_quota_us", "1\n");  // of another controller
  write("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n");
  write("cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable().quota, 1.5);
  write("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(usable().whole(), usable().bound);
}

// A container that has no namespace for control groups sees its own as the root, and a path that it does not have.
TEST_F(UsableCoresTest, TheRootIsThatOfTheContainer) {
  write("proc/self/cgroup", "4:cpu:/docker/123\n");
  write("cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable().quota, 0.5);
}

TEST(UsableCoresValueTest, AQuotaIsRoundedToThreadsThatCanCompute) {
  EXPECT_EQ((UsableCores{.bound = 8, .quota = 0.1}.whole()), 1);
  EXPECT_EQ((UsableCores{.bound = 8, .quota = 1.4}.whole()), 1);
  EXPECT_EQ((UsableCores{.bound = 8, .quota = 1.5}.whole()), 2);
  EXPECT_EQ((UsableCores{.bound = 2, .quota = 64}.whole()), 2);
  EXPECT_EQ((UsableCores{.bound = 2, .quota = 0.5}.describe()), "0.5 of 2 cores (a quota of processor time)");
}

TEST(CoresInTest, ReadsWhatTheKernelWrites) {
  EXPECT_THAT(cores_in("0-2,5,7-8"), ElementsAre(0, 1, 2, 5, 7, 8));
  EXPECT_THAT(cores_in("3"), ElementsAre(3));
  for (const char* wrong : {"", "a", "3-1", "-1", "1-", "0-99999999", "1,,2"})
    EXPECT_THAT(cores_in(wrong), IsEmpty()) << wrong;
}

TEST_F(UsableCoresTest, NodesHaveTheCoresThatTheProcessIsBoundTo) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  for (const int core : {0, 1, 2, 5}) CPU_SET(core, &bound);
  EXPECT_THAT(cores_by_node(bound, files()), IsEmpty()) << "the kernel does not tell";
  write("node/online", "0,2\n");
  write("node/node0/cpulist", "0-3\n");
  write("node/node2/cpulist", "4-7\n");
  EXPECT_THAT(cores_by_node(bound, files()), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(5)));
  CPU_CLR(5, &bound);
  EXPECT_THAT(cores_by_node(bound, files()), IsEmpty()) << "one node only";
}

TEST(NodesOfThreadsTest, NeighboursShareANode) {
  const std::vector<std::vector<int>> nodes{{0, 1}, {2, 3}};
  EXPECT_THAT(nodes_of_threads(4, nodes),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(2, 3)));
  EXPECT_THAT(nodes_of_threads(3, nodes), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(nodes_of_threads(1, nodes), IsEmpty()) << "one thread may use both";
  EXPECT_THAT(nodes_of_threads(4, {}), IsEmpty());
}

}  // namespace
}  // namespace tandem
