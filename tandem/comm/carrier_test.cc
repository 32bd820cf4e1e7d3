#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <atomic>
#include <latch>

#include "tandem/base/testing/eventually.h"
#include "tandem/comm/layers.h"
#include "tandem/comm/testing/layers_of_groups.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::StrEq;

// What goes on between the leaders, one of whom this is: the first result comes when `may_end` says so.
struct Between {
  std::atomic<int> started{0};
  std::latch& may_end;
};

class SlowWire final : public ForwardingGroup {
 public:
  SlowWire(std::unique_ptr<Group> group, Between& between) : ForwardingGroup(std::move(group)), between_(between) {}
  [[nodiscard]] bool goes_on_alone() const override { return true; }
  Pending start_all_reduce(const at::Tensor& flat) override {
    (void)ForwardingGroup::start_all_reduce(flat);
    const auto ticket = static_cast<std::uint64_t>(between_.started++);
    return {*this, ticket};
  }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override {
    if (ticket == 0) {
      EXPECT_TRUE(eventually([&] { return between_.may_end.try_wait(); }));
    }
    ForwardingGroup::finish(ticket, limits);
  }

 private:
  Between& between_;
};

// Otherwise the wire between hosts idles while a result is handed round and the next vector is summed inside.
TEST(CarrierTest, WhatIsStartedWhileOneIsUnderWayFollowsItBeforeItsResultIsHandedRound) {
  std::latch all_have_started_both(4);
  std::array<Between, 2> between{{{.may_end = all_have_started_both}, {.may_end = all_have_started_both}}};
  std::vector<Groups> inner;
  Groups leaders = make_local_group(2);
  for (std::size_t host = 0; host < between.size(); ++host) {
    inner.push_back(make_local_group(2));
    leaders[host] = std::make_unique<SlowWire>(std::move(leaders[host]), between[host]);
  }
  const auto outcomes = run_all(layer(std::move(inner), std::move(leaders)), [&](Group& group) {
    const std::atomic<int>& started = between.at(static_cast<std::size_t>(group.rank() / 2)).started;
    const torch::Tensor first = torch::full({1000}, group.rank()), second = torch::full({1000}, 10 + group.rank());
    Pending of_first = group.start_all_reduce(first);
    EXPECT_TRUE(eventually([&] { return started == 1; }));
    Pending of_second = group.start_all_reduce(second);
    all_have_started_both.count_down();
    of_first.wait(within(60s));
    EXPECT_EQ(started, 2);
    of_second.wait(within(60s));
    EXPECT_TRUE(torch::equal(first, torch::full({1000}, 6)));
    EXPECT_TRUE(torch::equal(second, torch::full({1000}, 46)));
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

}  // namespace
}  // namespace tandem::comm
