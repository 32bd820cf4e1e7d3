// examples/fashion_mnist: the same shards give the same bits on any replicas, ranks and groups, and all work.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

constexpr std::int64_t kRowsOfAnEpoch = 59'904;  // whole batches of 128 of 60,000 images

struct Setup {
  Topology topology;
  std::size_t replicas;            // all in all
  std::vector<std::string> flags;  // of fashion_mnist
};

Command an_epoch(const Setup& setup) {
  const auto& [ranks, devices] = setup.topology;
  Command command{FASHION_MNIST_PROGRAM, {"--devices", devices, "--shards", "4", "--epochs", "1"}};
  command.arguments.insert(command.arguments.end(), setup.flags.begin(), setup.flags.end());
  return ranks == 1 ? command : as_ranks(ranks, command);
}

std::string words_of(const Setup& setup) {
  std::string text = concat(setup.topology.ranks, " x ", setup.topology.devices);
  for (const std::string& flag : setup.flags) text += " " + flag;
  return text;
}

// The last line of rank 0, with or without the launcher's prefix.
JsonValue result_of(const std::string& out) {
  const std::size_t line = out.rfind("{\"epochs\"");
  EXPECT_NE(line, std::string::npos) << out;
  return read_json(out.substr(line, out.find('\n', line) - line));
}

// Their shards are equal, so that their work is.
void expect_every_replica_worked(const JsonValue& result, std::size_t replicas) {
  const auto& work = result.at("replicas").as_array();
  ASSERT_EQ(work.size(), replicas);
  double mean = 0;
  for (const JsonValue& replica : work) mean += replica.at("thread_cpu_s").as_double() / static_cast<double>(replicas);
  for (const JsonValue& replica : work) {
    const double seconds = replica.at("thread_cpu_s").as_double();
    EXPECT_EQ(replica.at("rows").as_int64(), kRowsOfAnEpoch / static_cast<std::int64_t>(replicas));
    EXPECT_GT(seconds, mean / 2) << "of the mean of all replicas, " << mean << " s";
    std::cout << " " << replica.at("rows").as_int64() << " rows in " << seconds << " s;";
  }
}

// Returns the state, once it has looked at the rest.
std::string state_after_an_epoch(const Setup& setup) {
  const Ended ended = run(an_epoch(setup));
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.err;
  if (ended.exit_code != 0) return "";
  const JsonValue result = result_of(ended.out);
  std::cout << words_of(setup) << ": CPU of each replica:";
  expect_every_replica_worked(result, setup.replicas);
  std::string state = result.at("state_sha256").as_string();
  std::cout << " state " << state.substr(0, 16) << std::endl;
  return state;
}

void expect_same_state(const std::vector<Setup>& setups) {
  const std::string expected = state_after_an_epoch({{1, "cpu:4"}, 4, {}});
  for (const Setup& setup : setups) {
    SCOPED_TRACE(words_of(setup));
    EXPECT_EQ(state_after_an_epoch(setup), expected);
  }
}

TEST(LongFashionMnistTest, HasTheSameStateOnAnyReplicasOfAProcess) {
  expect_same_state({{{1, "cpu"}, 1, {}}, {{1, "cpu:2"}, 2, {}}});
}

TEST(LongFashionMnistTest, HasTheSameStateOverHostGroups) {
  expect_same_state({{{2, "cpu:2"}, 4, {"--backend", "host"}}, {{4, "cpu"}, 4, {"--backend", "host"}}});
}

TEST(LongFashionMnistTest, HasTheSameStateOverTcpOnly) {
  expect_same_state({{{2, "cpu:2"}, 4, {"--backend", "tcp"}}, {{4, "cpu"}, 4, {"--backend", "tcp"}}});
}

TEST(LongFashionMnistTest, HasTheSameStateWhenTheOptimizerIsDivided) {
  expect_same_state({{{1, "cpu:4"}, 4, {"--strategy", "divided"}},
                     {{2, "cpu:2"}, 4, {"--strategy", "divided", "--backend", "host"}},
                     {{4, "cpu"}, 4, {"--strategy", "divided", "--backend", "host"}},
                     {{4, "cpu"}, 4, {"--strategy", "divided", "--backend", "tcp"}}});
}

}  // namespace
}  // namespace tandem::process_test
