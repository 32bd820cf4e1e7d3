// Training on two hosts: the bits of one process.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tests/namespaces/two_hosts.h"
#include "tests/support/child.h"

namespace tandem::namespaces_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;

// Ranks, half of them on each host, and the devices of each.
constexpr std::pair<int, const char*> kTopologies[]{{4, "cpu"}, {2, "cpu:2"}};

// The last line that a program printed.
JsonValue result_of(const std::string& out) {
  const std::size_t end = out.find_last_not_of('\n');
  const std::size_t begin = out.rfind('\n', end);
  return read_json(out.substr(begin == std::string::npos ? 0 : begin + 1));
}

Command fashion_mnist(std::vector<std::string> more) {
  Command command{FASHION_MNIST_PROGRAM, {"--shards", "4", "--epochs", "1"}};
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  return command;
}

// `ranks` processes, the first half of them on the first host.
std::deque<Child> start_on(const TwoHosts& hosts, int ranks, const Command& command) {
  std::deque<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Command mine = command;
    mine.environment = {concat("RANK=", rank), concat("WORLD_SIZE=", ranks),
                        concat("MASTER_ADDR=", TwoHosts::address(0)), "MASTER_PORT=29500",
                        concat("TANDEM_RUN_SECRET=", kRunSecret)};
    mine.prepare = [&hosts, host = rank * 2 / ranks] { hosts.enter(host); };
    children.emplace_back(mine);
  }
  return children;
}

// Waits for all, which must succeed; what rank 0 printed.
std::string expect_success(std::deque<Child>& ranks) {
  std::vector<Ended> ended;
  for (Child& rank : ranks) ended.push_back(rank.wait());
  for (const Ended& rank : ended) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  return ended.front().out;
}

std::string train_on(const TwoHosts& hosts, int ranks, const Command& command) {
  std::deque<Child> children = start_on(hosts, ranks, command);
  return expect_success(children);
}

TEST(TwoHostsTrainingTest, FashionMnistHasTheBitsOfOneProcess) {
  const TwoHosts hosts;
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  const Ended alone = run(fashion_mnist({"--devices", "cpu:2"}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const JsonValue expected = result_of(alone.out);
  struct Case {
    int ranks;
    const char *devices, *strategy, *encrypt, *hash;
  };
  // Buffers are each replica's own under sync_replicas.
  for (const auto& [ranks, devices, strategy, encrypt, hash] :
       {Case{4, "cpu", "replicated", "control", "state_sha256"}, Case{2, "cpu:2", "replicated", "all", "state_sha256"},
        Case{4, "cpu", "divided", "control", "state_sha256"},
        Case{4, "cpu", "sync_replicas", "all", "params_sha256"}}) {
    SCOPED_TRACE(concat(ranks, " ranks, ", strategy, ", ", encrypt));
    const JsonValue result = result_of(
        train_on(hosts, ranks, fashion_mnist({"--devices", devices, "--strategy", strategy, "--encrypt", encrypt})));
    EXPECT_EQ(result.at(hash).as_string(), expected.at(hash).as_string());
    EXPECT_EQ(result.at("replicas").as_array().size(), 4u);
    for (const JsonValue& replica : result.at("replicas").as_array()) {
      EXPECT_EQ(replica.at("rows").as_int64(), 14'976);
      EXPECT_GT(replica.at("thread_cpu_s").as_double(), 0);
    }
  }
}

// Four environments, shards and replicas, all in all.
Command dd_ppo(const fs::path& folder, const std::string& devices) {
  return {TANDEM_PROGRAM, {"train",  "--algo",           "dd_ppo",    "--env",      "CartPole-v1", "--seed",
                           "21",     "--shards",         "4",         "--num-envs", "4",           "--rollout-steps",
                           "50",     "--minibatch-size", "40",        "--epochs",   "2",           "--total-steps",
                           "100000", "--quiet",          "--devices", devices,      "--run-dir",   folder.string()}};
}

std::string state_of(const fs::path& folder) {
  const JsonValue summary = read_json(read_file(folder / "summary.json"));
  EXPECT_EQ(summary.at("env_steps").as_int64(), 100'000);
  EXPECT_EQ(summary.at("replicas").as_array().size(), 4u);
  return summary.at("state_sha256").as_string();
}

TEST(TwoHostsTrainingTest, DdPpoHasTheBitsOfOneProcessAfter100kSteps) {
  const TwoHosts hosts;
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  const TemporaryFolder scratch;
  const Ended alone = run(dd_ppo(scratch / "alone", "cpu:4"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const std::string expected = state_of(scratch / "alone");
  for (const auto& [ranks, devices] : kTopologies) {
    const auto folder = scratch / std::to_string(ranks);
    train_on(hosts, ranks, dd_ppo(folder, devices));
    EXPECT_EQ(state_of(folder), expected) << ranks << " ranks";
  }
}

// Environment steps that rollouts which ended early did not make.
std::int64_t rows_cut(const fs::path& run) {
  std::int64_t sum = 0;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) sum += read_json(line).at("rows_cut").as_int64();
  return sum;
}

// Rollouts take longer than learning, and long enough for news of the other host.
Command with_early_ends(const fs::path& folder, const std::string& devices, const std::string& policy) {
  Command command{TANDEM_PROGRAM,
                  {"train",
                   "--algo",
                   "dd_ppo",
                   "--env",
                   "CartPole-v1",
                   "--seed",
                   "22",
                   "--shards",
                   "4",
                   "--num-envs",
                   "4",
                   "--rollout-steps",
                   "1000",
                   "--minibatch-size",
                   "2000",
                   "--epochs",
                   "1",
                   "--total-steps",
                   "120000",
                   "--stragglers",
                   policy,
                   "--set",
                   "dd_ppo.least_frac=0.1",
                   "--quiet",
                   "--devices",
                   devices,
                   "--run-dir",
                   folder.string()}};
  if (policy == "preempt") command.arguments.insert(command.arguments.end(), {"--set", "dd_ppo.sync_frac=0.5"});
  return command;
}

// One rank a host. That of the second is stopped for so long, again and again: it is behind then, and ends its
// rollouts early when it has heard of the other host.
void train_with_a_straggler(const TwoHosts& hosts, const Command& command, std::chrono::milliseconds stop) {
  std::deque<Child> ranks = start_on(hosts, 2, command);
  while (ranks.back().is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ranks.back().signal(SIGSTOP);
    std::this_thread::sleep_for(stop);
    ranks.back().signal(SIGCONT);
  }
  expect_success(ranks);
}

// A run in which rollouts ended early. On a busy machine learning takes long too, and then time_optimal waits for a
// rank that is a little behind, so stops get longer until it does not.
fs::path run_with_early_ends(const TwoHosts& hosts, const fs::path& folder, const std::string& policy) {
  for (const auto stop : {20ms, 60ms, 180ms}) {
    fs::path run = folder / concat("stops of ", stop.count(), " ms");
    train_with_a_straggler(hosts, with_early_ends(run, "cpu", policy), stop);
    if (rows_cut(run) > 0) return run;
  }
  ADD_FAILURE() << "no rollout ended early: there is nothing to replay";
  return {};
}

TEST(TwoHostsTrainingTest, ARunWhoseRolloutsEndEarlyIsReplayedFromItsRecordOnAnyTopology) {
  const TwoHosts hosts;
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  for (const std::string policy : {"preempt", "time_optimal"}) {
    SCOPED_TRACE(policy);
    const TemporaryFolder scratch;
    const fs::path recorded = run_with_early_ends(hosts, scratch.path(), policy);
    if (recorded.empty()) return;
    const std::string expected = read_json(read_file(recorded / "summary.json")).at("state_sha256").as_string();
    const auto replay = [&](const std::string& name, const std::string& devices) {
      Command command = with_early_ends(scratch / name, devices, policy);
      command.arguments.insert(command.arguments.end(), {"--replay", recorded.string()});
      return command;
    };
    const auto expect_same = [&](const std::string& name) {
      const JsonValue summary = read_json(read_file(scratch / name / "summary.json"));
      EXPECT_EQ(summary.at("state_sha256").as_string(), expected) << name;
      EXPECT_EQ(summary.at("replicas").as_array().size(), 4u) << name;
      EXPECT_EQ(read_file(scratch / name / "rollouts.jsonl"), read_file(recorded / "rollouts.jsonl")) << name;
    };
    const Ended alone = run(replay("alone", "cpu:4"));
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    expect_same("alone");
    for (const auto& [ranks, devices] : kTopologies) {
      const std::string name = concat(ranks, " ranks");
      train_on(hosts, ranks, replay(name, devices));
      expect_same(name);
    }
  }
}

}  // namespace
}  // namespace tandem::namespaces_test
