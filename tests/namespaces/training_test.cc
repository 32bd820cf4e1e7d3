// Training on two hosts: the bits of one process.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <string>
#include <tuple>
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

using process_test::Child;
using process_test::Command;
using process_test::Ended;

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

// `ranks` processes, the first half of them on the first host, which must succeed; what rank 0 printed.
std::string train_on(const TwoHosts& hosts, int ranks, const Command& command) {
  std::deque<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    Command mine = command;
    mine.environment = {concat("RANK=", rank), concat("WORLD_SIZE=", ranks),
                        concat("MASTER_ADDR=", TwoHosts::address(0)), "MASTER_PORT=29500"};
    mine.prepare = [&hosts, host = rank * 2 / ranks] { hosts.enter(host); };
    children.emplace_back(mine);
  }
  std::vector<Ended> ended;
  for (Child& child : children) ended.push_back(child.wait());
  for (const Ended& rank : ended) EXPECT_EQ(rank.exit_code, 0) << rank.err;
  return ended.front().out;
}

TEST(TwoHostsTrainingTest, FashionMnistHasTheBitsOfOneProcess) {
  const TwoHosts hosts;
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  const Ended alone = run(fashion_mnist({"--devices", "cpu:2"}));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const std::string expected = result_of(alone.out).at("state_sha256").as_string();
  for (const auto& [ranks, devices, strategy] :
       {std::tuple{4, "cpu", "replicated"}, std::tuple{2, "cpu:2", "replicated"}, std::tuple{4, "cpu", "divided"}}) {
    SCOPED_TRACE(concat(ranks, " ranks, ", strategy));
    const JsonValue result =
        result_of(train_on(hosts, ranks, fashion_mnist({"--devices", devices, "--strategy", strategy})));
    EXPECT_EQ(result.at("state_sha256").as_string(), expected);
    EXPECT_EQ(result.at("replicas").as_array().size(), 4u);
    for (const JsonValue& replica : result.at("replicas").as_array()) {
      EXPECT_EQ(replica.at("rows").as_int64(), 14'976);
      EXPECT_GT(replica.at("thread_cpu_s").as_double(), 0);
    }
  }
}

// Four environments, shards and replicas, all in all.
Command dd_ppo(const std::filesystem::path& folder, const std::string& devices) {
  return {TANDEM_PROGRAM, {"train",  "--algo",           "dd_ppo",    "--env",      "CartPole-v1", "--seed",
                           "21",     "--shards",         "4",         "--num-envs", "4",           "--rollout-steps",
                           "50",     "--minibatch-size", "40",        "--epochs",   "2",           "--total-steps",
                           "100000", "--quiet",          "--devices", devices,      "--run-dir",   folder.string()}};
}

std::string state_of(const std::filesystem::path& folder) {
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
  for (const auto& [ranks, devices] : {std::pair{4, "cpu"}, std::pair{2, "cpu:2"}}) {
    const auto folder = scratch / std::to_string(ranks);
    train_on(hosts, ranks, dd_ppo(folder, devices));
    EXPECT_EQ(state_of(folder), expected) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace tandem::namespaces_test
