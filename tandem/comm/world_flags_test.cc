#include "tandem/comm/world_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/comm/world.h"

namespace tandem::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WorldFlagsTest, NothingSaidIsAuto) {
  const WorldOptions options = read_world_flags({});
  EXPECT_EQ(options.backend, Backend::kAuto);
  EXPECT_EQ(options.hosts_by, HostsBy::kKey);
  EXPECT_EQ(options.traffic, net::Traffic::kOpen);
}

TEST(WorldFlagsTest, WhatIsEncryptedIsRead) {
  EXPECT_EQ(read_world_flags({.encrypt = "control"}).traffic, net::Traffic::kOpen);
  EXPECT_EQ(read_world_flags({.encrypt = "all"}).traffic, net::Traffic::kEncrypted);
}

TEST(WorldFlagsTest, BackendsAndListsOfRanksAreRead) {
  const WorldOptions options = read_world_flags({.backend = "tcp", .hosts_by = "0,1/2,10/3", .network = "eth1"});
  EXPECT_EQ(options.backend, Backend::kTcp);
  EXPECT_EQ(options.hosts_by, HostsBy::kRankList);
  EXPECT_THAT(options.hosts, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 10), ElementsAre(3)));
  EXPECT_EQ(options.network, "eth1");
  EXPECT_EQ(read_world_flags({.backend = "host", .hosts_by = "key"}).hosts_by, HostsBy::kKey);
}

TEST(WorldFlagsTest, AllFaultsAreNamedAtOnce) {
  for (const char* list : {"keys", "0,1/", "0,,1", "0;1", "-1", "1x", ",", "/"}) {
    try {
      (void)read_world_flags({.backend = "mpi", .hosts_by = list, .encrypt = "some"});
      FAIL() << list;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--backend mpi"), HasSubstr(std::string("--hosts-by ") + list),
                                      HasSubstr("--encrypt some: expected control or all")));
    }
  }
}

}  // namespace
}  // namespace tandem::comm
