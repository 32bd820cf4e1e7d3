#include "tandem/shm/lifeline_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/testing/eventually.h"

namespace tandem::shm {
namespace {

// What a rank and its one peer hold, and what the rank was told.
class LifelineWatchTest : public testing::Test {
 protected:
  LifelineWatchTest() {
    std::vector<Descriptor> peers;
    peers.push_back(std::move(theirs_.others));
    watch_.emplace(
        std::move(mine_.own), std::move(peers), [this](int) { ++ends_; }, [this] { ++calls_; });
  }
  // As a process that ends: what it holds of others is closed before its own end is.
  void peer_goes() {
    mine_.others = Descriptor();
    theirs_.own = Descriptor();
  }

  Lifeline mine_ = make_lifeline(), theirs_ = make_lifeline();
  std::atomic<int> ends_{0}, calls_{0};
  std::optional<LifelineWatch> watch_;
};

TEST_F(LifelineWatchTest, ACallOfAPeerIsHeard) {
  call(mine_.others);
  EXPECT_TRUE(eventually([this] { return calls_.load() == 1; }));
  call(mine_.others);
  EXPECT_TRUE(eventually([this] { return calls_.load() == 2; }));
  EXPECT_EQ(ends_.load(), 0);
}

// A rank that is called lets the wait that it is in expire, as if the deadline had passed.
TEST_F(LifelineWatchTest, ThatTheLastPeerIsGoneIsNoCall) {
  peer_goes();
  ASSERT_TRUE(eventually([this] { return ends_.load() == 1; }));
  watch_.reset();  // joins the thread, which has seen both ends by then
  EXPECT_EQ(calls_.load(), 0);
}

}  // namespace
}  // namespace tandem::shm
