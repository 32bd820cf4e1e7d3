// The world of a run on two hosts: two ranks in each of two network namespaces.
#include "tests/namespaces/two_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/world.h"

namespace tandem::namespaces_test {
namespace {

using comm::World;
using comm::WorldOptions;
using shm::ProcessWorld;
using shm::Voice;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::StrEq;

constexpr int kRanks = 4;

comm::LauncherEnvironment rank_of(int rank) {
  return {.launcher = comm::Launcher::kVariables,
          .rank = rank,
          .world_size = kRanks,
          .host_name = "here",
          .master = {.address = TwoHosts::address(0), .port = 29500}};
}

class TwoHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  }

  // Ranks 0 and 1 on the first host, 2 and 3 on the second.
  std::vector<std::string> run(comm::Backend backend, const std::function<void(World&, const Voice&)>& work) {
    ProcessWorld processes(kRanks, [&](int rank, const Voice& voice) {
      hosts.enter(rank / 2);
      WorldOptions options;
      options.backend = backend;
      World world = comm::open_world(rank_of(rank), options);
      work(world, voice);
      world.group->barrier(comm::within_a_minute());
    });
    return processes.outcomes();
  }

  const TwoHosts hosts;
};

void check_group(World& world, const Voice& voice) {
  voice.say(comm::faults_of_sums(*world.group, {torch::kFloat, torch::kDouble, torch::kLong}, {0, 31, 20'001}));
  voice.say(comm::faults_of_copies(*world.group));
}

TEST_F(TwoHostsTest, AutoFindsThemAndGoesWithinEachFirst) {
  const auto outcomes = run(comm::Backend::kAuto, [](World& world, const Voice& voice) {
    if (world.kind != comm::GroupKind::kHostThenGloo || world.local_rank != world.rank % 2) voice.say("other hosts; ");
    check_group(world, voice);
    voice.say(world.description);
  });
  EXPECT_THAT(outcomes,
              Each(AllOf(StartsWith("rank "), HasSubstr("host 0 (here): ranks 0, 1; host 1 (here): ranks 2, 3, "
                                                        "by boot id, network namespace and user"))));
}

TEST_F(TwoHostsTest, GlooAloneGivesTheSameBits) {
  EXPECT_THAT(run(comm::Backend::kGloo, check_group), Each(StrEq("")));
}

TEST_F(TwoHostsTest, HostIsRefused) {
  EXPECT_THAT(run(comm::Backend::kHost, [](World&, const Voice&) {}),
              Each(StartsWith("backend host: the ranks are not on one host")));
}

// 2 (h - 1) / h times the payload for h hosts, however many ranks they have.
TEST_F(TwoHostsTest, ASumCrossesTheCableOnceAHost) {
  const auto outcomes = run(comm::Backend::kAuto, [](World& world, const Voice& voice) {
    const torch::Tensor flat = world.group->allocate(2'000'000, torch::kFloat, torch::kCPU);
    const auto sum = [&] { world.group->start_all_reduce(flat).wait(comm::within_a_minute()); };
    sum();
    world.group->barrier(comm::within_a_minute());
    const std::int64_t before = bytes_sent();
    world.group->barrier(comm::within_a_minute());
    constexpr int kSums = 5;
    for (int i = 0; i < kSums; ++i) sum();
    world.group->barrier(comm::within_a_minute());
    const double share = static_cast<double>(bytes_sent() - before) / (kSums * static_cast<double>(flat.nbytes()));
    if (share < 0.95 || share > 1.1) voice.say(concat("each host sent ", share, " times the payload"));
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

}  // namespace
}  // namespace tandem::namespaces_test
