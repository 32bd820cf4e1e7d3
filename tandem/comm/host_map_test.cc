#include "tandem/comm/host_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> faults_of_list(const std::vector<std::vector<int>>& hosts, int ranks) {
  try {
    (void)HostMap::by_list(hosts, std::vector<std::string>(static_cast<std::size_t>(ranks), "h"));
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

HostMap listed(const std::vector<std::vector<int>>& hosts) {
  std::size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  return HostMap::by_list(hosts, std::vector<std::string>(ranks, "h"));
}

TEST(HostMapTest, RanksWithTheSameKeyShareAHost) {
  const HostMap map = HostMap::by_key(
      std::vector<HostKey>{{.key = "b", .name = "beta"}, {.key = "a", .name = "alpha"}, {.key = "b", .name = "beta"}});
  EXPECT_EQ(map.size(), 2);
  EXPECT_THAT(map.host(0).ranks, ElementsAre(0, 2));
  EXPECT_THAT(map.host(1).ranks, ElementsAre(1));
  EXPECT_EQ(map.host_of(2), 0);
  EXPECT_EQ(map.local_rank(2), 1);
  EXPECT_EQ(map.local_rank(1), 0);
  EXPECT_FALSE(map.has_one_rank_each());
  EXPECT_EQ(map.describe(),
            "host 0 (beta): ranks 0, 2; host 1 (alpha): rank 1, by boot id, network namespace and user");
}

TEST(HostMapTest, ARankWithoutAKeyIsAlone) {
  const HostMap map = HostMap::by_key(std::vector<HostKey>{{.key = "", .name = "x"}, {.key = "", .name = "x"}});
  EXPECT_TRUE(map.has_one_rank_each());
  EXPECT_THAT(map.describe(), HasSubstr("does not tell"));
}

TEST(HostMapTest, ThisHostIsTheSameForAllThatAskHere) {
  EXPECT_EQ(this_host("a").key, this_host("b").key);
  EXPECT_THAT(this_host("a").key, AllOf(HasSubstr("net:["), HasSubstr("user:["), HasSubstr("uid ")));
}

TEST(HostMapTest, AListGivesHostsInTheOrderOfTheirFirstRanks) {
  const HostMap map = HostMap::by_list({{3, 2}, {0, 1}}, std::vector<std::string>{"a", "b", "c", "d"});
  EXPECT_EQ(map.describe(), "host 0 (a): ranks 0, 1; host 1 (c): ranks 2, 3, by the given list");
  EXPECT_EQ(map.host_of(3), 1);
  EXPECT_EQ(map.local_rank(3), 1);
}

TEST(HostMapTest, AllFaultsOfAListAreNamed) {
  EXPECT_THAT(faults_of_list({{0, 4}, {}, {0, 1}}, 3),
              UnorderedElementsAre("hosts_by rank-list: rank 4: there are ranks 0 to 2",
                                   "hosts_by rank-list: host 1 has no rank",
                                   "hosts_by rank-list: rank 0 is there 2 times, expected once",
                                   "hosts_by rank-list: rank 2 is there 0 times, expected once"));
}

TEST(HostMapTest, SumsWithinHostsFirstNeedRanksHostByHostAndHalves) {
  EXPECT_EQ(listed({{0, 1}, {2, 3}}).obstacle(), "");
  EXPECT_EQ(listed({{0, 1}, {2}}).obstacle(), "");
  EXPECT_THAT(listed({{0, 2}, {1, 3}}).obstacle(),
              AllOf(HasSubstr("ranks of h (ranks 0, 2)"), HasSubstr("start them host by host")));
  EXPECT_THAT(listed({{0}, {1, 2}}).obstacle(), HasSubstr("sums over 1 + 2 ranks are not parts of the sum over all 3"));
  EXPECT_THAT(listed({{0, 1}, {2, 3}, {4, 5}}).obstacle(), HasSubstr("sums over 2 + 2 + 2 ranks"));
}

}  // namespace
}  // namespace tandem::comm
