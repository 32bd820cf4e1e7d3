// What a board between hosts does when the store is lost. The rest of it is tested with worlds (world_test.cc).
#include "tandem/comm/world_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A store that can be lost, with all its parts.
class LosableStore final : public Store {
 public:
  LosableStore(std::unique_ptr<Store> store, const std::atomic<bool>& lost) : store_(std::move(store)), lost_(lost) {}

  void set(const std::string& key, const std::string& value) override { there().set(key, value); }
  std::string get(const std::string& key, const Limits& limits) override { return there().get(key, limits); }
  std::optional<std::string> find(const std::string& key) override { return there().find(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return there().add(key, amount); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return there().compare_set(key, expected, desired);
  }
  std::unique_ptr<Store> part(const std::string& prefix) override {
    return std::make_unique<LosableStore>(there().part(prefix), lost_);
  }
  std::string name() const override { return "the test's store"; }
  net::Access access() const override { return net::Reach::kThisHost; }

 private:
  Store& there() {
    if (lost_) throw RunError("the test's store is gone");
    return *store_;
  }
  const std::unique_ptr<Store> store_;
  const std::atomic<bool>& lost_;
};

TEST(WorldBoardLossTest, ALostStoreIsToldOnceAndTheBoardGoesOnWithoutNews) {
  std::atomic<bool> lost{false};
  std::array<std::atomic<int>, 2> told{};
  const std::unique_ptr<Store> root = make_memory_store();
  const std::array<std::string, 2> names{"a", "b"};
  std::array<std::optional<ProgressBoard>, 2> boards;
  const HostMap hosts = HostMap::by_list({{0}, {1}}, names);
  const auto on = [&hosts](int rank) {
    return World{.rank = rank, .size = 2, .hosts = hosts, .description = "", .store = nullptr};
  };
  std::array<World, 2> worlds{on(0), on(1)};
  const auto open = [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    worlds[i].store = std::make_unique<LosableStore>(root->part("run"), lost);
    boards[i] = open_board(worlds[i], 2, {rank, rank + 1}, {.deadline = Deadline::after(20s), .stop = {}},
                           {.every = 1ms, .on_loss = [&told, i](const std::string& why) {
                              EXPECT_EQ(why, "the test's store is gone");
                              ++told[i];
                            }});
  };
  std::jthread other(open, 1);
  open(0);
  other.join();
  boards[1]->post(1, {.round = 3, .steps = 7});
  EXPECT_TRUE(eventually([&] { return boards[0]->look(1).steps == 7; }));
  EXPECT_EQ(told[0] + told[1], 0);
  lost = true;
  EXPECT_TRUE(eventually([&] { return told[0] == 1 && told[1] == 1; }));
  boards[1]->post(1, {.round = 3, .steps = 8});
  boards[0]->post(0, {.round = 4, .steps = 1});
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(boards[0]->look(1).steps, 7) << "what was known stays";
  EXPECT_EQ(boards[0]->look(0).round, 4) << "the host's own is seen";
  EXPECT_EQ(told[0] + told[1], 2);
}

// A rank that fails before it opens its board: the others wait in the store, where nobody would tell them.
TEST(WorldBoardLossTest, TheEndOfARankEndsTheWaitOfTheOthers) {
  const std::array<std::string, 2> names{"a", "b"};
  std::vector<std::unique_ptr<Group>> groups = make_local_group(2);
  World world{.rank = 1,
              .size = 2,
              .hosts = HostMap::by_list({{0, 1}}, names),
              .description = "",
              .store = make_memory_store(),
              .group = std::move(groups[1])};
  const Limits in_time{.deadline = Deadline::after(60s), .stop = {}};
  std::jthread other([&] {
    while (!world.store->find("board/0/1")) std::this_thread::sleep_for(1ms);
    (void)groups[0]->abort("no memory is left");
  });
  EXPECT_THAT(message_of<GroupAborted>([&] {
                (void)open_board(world, 2, {1, 2}, in_time);
              }),
              HasSubstr("no memory is left"));
}

// A group of layers has a listener with the group between its processes; a board must leave it.
TEST(WorldBoardLossTest, AnOpenedBoardLeavesTheListenersOfItsGroup) {
  const std::array<std::string, 2> names{"a", "b"};
  const std::vector<std::shared_ptr<Group>> groups = [] {
    std::vector<std::unique_ptr<Group>> made = make_local_group(2);
    return std::vector<std::shared_ptr<Group>>{std::move(made[0]), std::move(made[1])};
  }();
  const std::unique_ptr<Store> root = make_memory_store();
  std::array<World, 2> worlds;
  std::array<std::optional<ProgressBoard>, 2> boards;
  std::string told;
  const Listening listening = groups[1]->on_close([&told](const std::string& why) { told += why; });
  const auto open = [&](int rank) {
    World& world = worlds[static_cast<std::size_t>(rank)];
    world.rank = rank;
    world.size = 2;
    world.hosts = HostMap::by_list({{0}, {1}}, names);
    world.store = root->part("run");
    world.group = groups[static_cast<std::size_t>(rank)];
    boards[static_cast<std::size_t>(rank)] =
        open_board(world, 2, {rank, rank + 1}, {.deadline = Deadline::after(20s), .stop = {}});
  };
  std::jthread other(open, 1);
  open(0);
  other.join();
  EXPECT_EQ(told, "");
  (void)groups[0]->abort("out of memory");
  EXPECT_EQ(told, "out of memory");
}

// One that an exception ends leaves its group in order, which closes it for nobody, and tells the store.
TEST(WorldBoardLossTest, TheFailureThatTheStoreTellsEndsTheWaitOfTheOthers) {
  const std::array<std::string, 2> names{"a", "b"};
  World world{.rank = 1,
              .size = 2,
              .hosts = HostMap::by_list({{0, 1}}, names),
              .description = "",
              .store = make_memory_store()};
  const Limits in_time{.deadline = Deadline::after(60s), .stop = {}};
  std::jthread other([&] {
    while (!world.store->find("board/0/1")) std::this_thread::sleep_for(1ms);
    (void)tell_first_failure(*world.store->part("words"), {0, "the data set is empty"});
  });
  EXPECT_THAT(message_of<PeerLost>([&] {
                (void)open_board(world, 2, {1, 2}, in_time);
              }),
              HasSubstr("rank 0 failed while the ranks met: the data set is empty"));
}

}  // namespace
}  // namespace tandem::comm
