#include "tandem/comm/failure_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;

TEST(FailureWatchTest, TheFailureOfAnotherRankRequestsTheStop) {
  const std::unique_ptr<Store> words = make_memory_store();
  const FailureWatch watch([&] { return failure_of_another(*words, 0); }, {});
  watch.rethrow();
  EXPECT_FALSE(watch.token().stop_requested());
  (void)tell_first_failure(*words, {1, "no cable"});
  EXPECT_TRUE(eventually([&] { return watch.token().stop_requested(); }));
  EXPECT_EQ(message_of<PeerLost>([&] { watch.rethrow(); }), "rank 1 failed while the ranks met: no cable");
}

TEST(FailureWatchTest, TheOwnFailureIsNoReasonAndTheCallersStopIsOne) {
  const std::unique_ptr<Store> words = make_memory_store();
  (void)tell_first_failure(*words, {0, "no cable"});
  std::stop_source stop;
  const FailureWatch watch([&] { return failure_of_another(*words, 0); }, stop.get_token());
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(watch.token().stop_requested());
  stop.request_stop();
  EXPECT_TRUE(watch.token().stop_requested());
  watch.rethrow();
}

}  // namespace
}  // namespace tandem::comm
