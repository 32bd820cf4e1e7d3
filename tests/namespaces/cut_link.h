// tests/namespaces/cut_link.h: a DD-PPO training of four ranks on two hosts whose cable may be cut.
//
// Threads: single-thread.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/base/testing/temporary_folder.h"
#include "tandem/comm/store/run_store.h"
#include "tests/namespaces/two_hosts.h"
#include "tests/process/survivors.h"

namespace tandem::namespaces_test {

inline constexpr int kAllRanks = 4;

/// `command` as a launcher starts it for a rank, with the variables that all launchers set: the first `first` ranks on
/// the first host, where the store is, the others on the second. `hosts` outlives the command.
process_test::Command as_rank(const TwoHosts& hosts, process_test::Command command, int rank, int first, int port);
/// A store of a launcher, on the first host.
comm::HostedStore store_on_first(const TwoHosts& hosts);

/// Skips the test where the system gives no namespaces.
class CutLink : public ::testing::Test {
 protected:
  void SetUp() override;

  /// The first `first` ranks on the first host, with the store in rank 0, the others on the second.
  void start(const process_test::Recipe& recipe, int first, const std::vector<std::string>& more);
  [[nodiscard]] bool reaches_update(std::int64_t updates) {
    return process_test::reaches_update(ranks.front(), folder, updates);
  }
  /// All ranks must end with 0, and nobody may have been lost.
  void expect_undisturbed(const std::string& state);
  /// Cuts the cable so often, for up to two seconds each, at random instants; nobody is lost. Ranks of each host are
  /// drawn, too.
  void expect_to_wait_out(const process_test::Recipe& recipe, int cuts, unsigned seed);
  /// The run must have finished, with this state.
  void expect_finished(const std::string& state, std::size_t replicas);

  const TwoHosts hosts;
  const TemporaryFolder scratch;
  const std::filesystem::path folder = scratch / "run";
  std::deque<process_test::Child> ranks;
};

}  // namespace tandem::namespaces_test
