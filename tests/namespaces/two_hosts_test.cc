// The world of a run on two hosts: two ranks in each of two network namespaces.
#include "tests/namespaces/two_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <iostream>
#include <memory>

#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/world.h"
#include "tandem/sync/data_parallel.h"

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

constexpr int kHosts = 2, kRanks = 4;

comm::LauncherEnvironment rank_of(int rank) {
  return {.launcher = comm::Launcher::kVariables,
          .rank = rank,
          .world_size = kRanks,
          .host_name = "here",
          .master = {.address = TwoHosts::address(0), .port = 29500},
          .secret = kRunSecret};
}

class TwoHostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  }

  // Ranks 0 and 1 on the first host, 2 and 3 on the second.
  std::vector<std::string> run(comm::Backend backend, const std::function<void(World&, const Voice&)>& work,
                               net::Traffic traffic = net::Traffic::kOpen) {
    ProcessWorld processes(kRanks, [&](int rank, const Voice& voice) {
      hosts.enter(rank * kHosts / kRanks);
      WorldOptions options;
      options.backend = backend;
      options.traffic = traffic;
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
    if (world.kind != comm::GroupKind::kHostThenTcp || world.local_rank != world.rank % 2) voice.say("other hosts; ");
    check_group(world, voice);
    voice.say(world.description);
  });
  EXPECT_THAT(outcomes,
              Each(AllOf(StartsWith("rank "), HasSubstr("host 0 (here): ranks 0, 1; host 1 (here): ranks 2, 3, "
                                                        "by boot id, network namespace and user"))));
}

TEST_F(TwoHostsTest, TcpAloneGivesTheSameBits) { EXPECT_THAT(run(comm::Backend::kTcp, check_group), Each(StrEq(""))); }

TEST_F(TwoHostsTest, EncryptedLinksGiveTheSameBits) {
  const auto work = [](World& world, const Voice& voice) {
    check_group(world, voice);
    if (world.description.find("encrypted") == std::string::npos) voice.say(world.description);
  };
  EXPECT_THAT(run(comm::Backend::kAuto, work, net::Traffic::kEncrypted), Each(StrEq("")));
}

TEST_F(TwoHostsTest, HostIsRefused) {
  EXPECT_THAT(run(comm::Backend::kHost, [](World&, const Voice&) {}),
              Each(StartsWith("backend host: the ranks are not on one host")));
}

// Bytes that this host sends for each time that all ranks do the work, once they are connected.
double bytes_of(const World& world, const std::function<void()>& work) {
  work();
  world.group->barrier(comm::within_a_minute());
  const std::int64_t before = bytes_sent();
  world.group->barrier(comm::within_a_minute());
  constexpr int kTimes = 5;
  for (int i = 0; i < kTimes; ++i) work();
  world.group->barrier(comm::within_a_minute());
  return static_cast<double>(bytes_sent() - before) / kTimes;
}

// 2 (h - 1) / h times the payload for h hosts, however many ranks they have.
void expect_sent_once_a_host(const World& world, double bytes, double payload, const Voice& voice) {
  const double share = bytes / (2.0 * (kHosts - 1) / kHosts * payload);
  if (world.local_rank == 0) std::cout << concat("each host sent ", share, " times what it must\n") << std::flush;
  if (share < 0.95 || share > 1.1) voice.say(concat("each host sent ", share, " times what it must"));
}

TEST_F(TwoHostsTest, ASumCrossesTheCableOnceAHost) {
  const auto outcomes = run(comm::Backend::kAuto, [](World& world, const Voice& voice) {
    const torch::Tensor flat = world.group->allocate(2'000'000, torch::kFloat, torch::kCPU);
    const double bytes = bytes_of(world, [&] { world.group->start_all_reduce(flat).wait(comm::within_a_minute()); });
    expect_sent_once_a_host(world, bytes, static_cast<double>(flat.nbytes()), voice);
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

// A training loop of a LibTorch program, whose gradients are means for an optimizer of its own, or updates too.
void train(World& world, const sync::DataParallelOptions& options, const Voice& voice) {
  constexpr int kInputs = 64, kWidth = 1200, kRows = 4;
  at::set_num_threads(1);
  const auto net = std::make_shared<torch::nn::SequentialImpl>(
      torch::nn::Linear(kInputs, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(),
      torch::nn::Linear(kWidth, kWidth), torch::nn::Tanh(), torch::nn::Linear(kWidth, 1));
  sync::DataParallel parallel(net, *world.group, options);
  const torch::Tensor x = torch::full({kRows, kInputs}, 0.01 * (world.rank + 1));
  const double bytes = bytes_of(world, [&] {
    parallel.backward(net->forward(x).square().mean(), kRows);
    if (options.optimizer.empty()) {
      parallel.average();
    } else {
      parallel.step();
    }
  });
  double gradients = 0;
  for (const torch::Tensor& parameter : net->parameters()) gradients += static_cast<double>(parameter.grad().nbytes());
  expect_sent_once_a_host(world, bytes, gradients, voice);
  parallel.finish();
}

TEST_F(TwoHostsTest, TheGradientsOfAStepOfDataParallelCrossTheCableOnceAHost) {
  for (const sync::DataParallelOptions& options :
       {sync::DataParallelOptions{}, sync::DataParallelOptions{.optimizer = {model::AdamOptions{}}}}) {
    SCOPED_TRACE(options.optimizer.empty() ? "average()" : "step()");
    EXPECT_THAT(run(comm::Backend::kAuto, [&](World& world, const Voice& voice) { train(world, options, voice); }),
                Each(StrEq("")));
  }
}

}  // namespace
}  // namespace tandem::namespaces_test
