#include "tests/namespaces/cut_link.h"

#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>

#include "tandem/base/text.h"
#include "tests/process/faults.h"

namespace tandem::namespaces_test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;

Command as_rank(const TwoHosts& hosts, Command command, int rank, int first, int port) {
  const int host = rank < first ? 0 : 1;
  for (const std::string& variable : {concat("RANK=", rank), concat("LOCAL_RANK=", rank - host * first),
                                      concat("WORLD_SIZE=", kAllRanks), concat("MASTER_ADDR=", TwoHosts::address(0)),
                                      concat("MASTER_PORT=", port), concat("TANDEM_RUN_SECRET=", kRunSecret)})
    command.environment.push_back(variable);
  command.prepare = [&hosts, host] { hosts.enter(host); };
  return command;
}

// A thread stays on the host that it enters; this one is to stay where it is.
comm::HostedStore store_on_first(const TwoHosts& hosts) {
  return std::async(std::launch::async,
                    [&hosts] {
                      hosts.enter(0);
                      return comm::host_store(
                          {.endpoint = {"0.0.0.0", 0}, .reach = net::Reach::kEverywhere, .secret = kRunSecret});
                    })
      .get();
}

void CutLink::SetUp() {
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
}

void CutLink::start(const process_test::Recipe& recipe, int first, const std::vector<std::string>& more) {
  Command mine = process_test::training(recipe, folder);
  mine.arguments.insert(mine.arguments.end(), more.begin(), more.end());
  ranks.clear();
  for (int rank = 0; rank < kAllRanks; ++rank) ranks.emplace_back(as_rank(hosts, mine, rank, first, 29500));
}

void CutLink::expect_finished(const std::string& state, std::size_t replicas) {
  const JsonValue summary = process_test::summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "finished");
  EXPECT_EQ(summary.at("state_sha256").as_string(), state);
  EXPECT_EQ(summary.at("replicas").as_array().size(), replicas);
  process_test::expect_line_for_every_update(folder);
}

void CutLink::expect_undisturbed(const std::string& state) {
  for (Child& rank : ranks) {
    const Ended ended = rank.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
  expect_finished(state, kAllRanks);
  EXPECT_THAT(process_test::log_of(folder), ::testing::Not(::testing::HasSubstr("is lost")));
}

void CutLink::expect_to_wait_out(const process_test::Recipe& recipe, int cuts, unsigned seed) {
  const std::string state = process_test::undisturbed_state(recipe);
  process_test::Dice dice(seed);
  for (const char* survivors : {"end", "take_over"}) {
    fs::remove_all(folder);
    const int first = 1 + dice.below(kAllRanks - 1);
    start(recipe, first, {"--survivors", survivors});
    for (int cut = 1; cut <= cuts; ++cut) {
      SCOPED_TRACE(concat("survivors ", survivors, ", ", first, " ranks with the store, cut ", cut, " of seed ", seed));
      ASSERT_TRUE(reaches_update(50 * cut)) << "it ended before all cuts; give it more steps";
      std::this_thread::sleep_for(dice.within(50ms));
      hosts.cut();
      std::this_thread::sleep_for(dice.between(200ms, 2s));
      hosts.mend();
    }
    expect_undisturbed(state);
  }
}

}  // namespace tandem::namespaces_test
