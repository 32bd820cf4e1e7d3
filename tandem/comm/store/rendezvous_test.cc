// Ranks as threads that meet through a store in memory.
#include "tandem/comm/store/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/comm/store/store.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {

static void PrintTo(const Life& life, std::ostream* out) { *out << life.rank << "." << life.restarts; }

namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::chrono::hours kNever{1};

Limits in_time() { return within(60s); }

// What lies between a rank and the store.
struct Cable {
  std::atomic<bool> is_cut{false};   // who asks loses its connection
  std::atomic<bool> is_held{false};  // who asks waits
};

class CableStore final : public Store {
 public:
  CableStore(std::unique_ptr<Store> store, const Cable& cable) : store_(std::move(store)), cable_(cable) {}

  void set(const std::string& key, const std::string& value) override { asked().set(key, value); }
  std::string get(const std::string& key, const Limits& limits) override { return asked().get(key, limits); }
  std::optional<std::string> find(const std::string& key) override { return asked().find(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return asked().add(key, amount); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return asked().compare_set(key, expected, desired);
  }
  std::unique_ptr<Store> part(const std::string& prefix) override { return asked().part(prefix); }
  [[nodiscard]] std::string name() const override { return "the store behind the cable"; }
  [[nodiscard]] net::Access access() const override { return net::Reach::kThisHost; }

 private:
  Store& asked() {
    while (cable_.is_held) std::this_thread::sleep_for(1ms);
    is_broken_ = is_broken_ || cable_.is_cut;
    if (is_broken_) throw RunError("the connection is broken");
    return *store_;
  }

  const std::unique_ptr<Store> store_;
  const Cable& cable_;
  bool is_broken_ = false;
};

class RendezvousTest : public ::testing::Test {
 protected:
  std::unique_ptr<Rendezvous> come(const Life& me, std::chrono::milliseconds silence = kNever,
                                   std::chrono::milliseconds deadline = kNever) {
    const Cable& cable = cables_.at(static_cast<std::size_t>(me.rank));
    return std::make_unique<Rendezvous>(
        [this, &cable](const std::stop_token&) -> std::unique_ptr<Store> {
          if (cable.is_cut) throw DeadlineExceeded("the cable is cut");
          return std::make_unique<CableStore>(store_->part("meeting"), cable);
        },
        me, Rendezvous::Options{.beat = 5ms, .silence = silence, .deadline = deadline});
  }
  // Ranks 0 .. count - 1, each in its first life.
  std::vector<std::unique_ptr<Rendezvous>> start(int count, std::chrono::milliseconds silence = kNever,
                                                 std::chrono::milliseconds deadline = kNever) {
    std::vector<Life> all;
    for (int rank = 0; rank < count; ++rank) all.push_back({rank, 0});
    std::vector<std::unique_ptr<Rendezvous>> ranks;
    for (const Life& life : all) {
      ranks.push_back(come(life, silence, deadline));
      ranks.back()->begin(all);
    }
    return ranks;
  }
  void end(const Life& who, const std::string& how) { report_end(*store_->part("meeting"), who, how); }

  static std::future<std::optional<Round>> meeting(Rendezvous& rank, const Limits& limits = in_time()) {
    return std::async(std::launch::async, [&rank, limits] { return rank.meet(limits); });
  }

  // Until the round is broken; why.
  static std::string await_break(Rendezvous& rank) {
    const std::stop_token broken = rank.broken();
    EXPECT_TRUE(eventually([&] { return broken.stop_requested(); }));
    return rank.why_broken();
  }

  const std::unique_ptr<Store> store_ = make_memory_store();
  std::array<Cable, 6> cables_;  // of each rank
};

// At once: its silence, which would take an hour, is not waited for.
TEST_F(RendezvousTest, SurvivorsAgreeOnWhoIsLeftAndHowTheOthersDied) {
  auto ranks = start(4);
  ranks[1].reset();
  end({1, 0}, "SIGKILL");
  std::vector<std::future<std::optional<Round>>> rounds;
  for (const int rank : {0, 2, 3}) rounds.push_back(meeting(*ranks[static_cast<std::size_t>(rank)]));
  for (int place = 0; place < 3; ++place) {
    const Round round = rounds[static_cast<std::size_t>(place)].get().value();
    EXPECT_EQ(round.number, 1);
    EXPECT_EQ(round.mine, place);
    EXPECT_THAT(round.members, ElementsAre(Life{0, 0}, Life{2, 0}, Life{3, 0}));
    ASSERT_THAT(round.lost, SizeIs(1));
    EXPECT_EQ(round.lost[0].who, (Life{1, 0}));
    EXPECT_EQ(round.lost[0].how, "died: SIGKILL");
  }
}

// Without a launcher's word: it stops giving signs of life. No deadline would end the wait.
TEST_F(RendezvousTest, AMemberThatFallsSilentIsLeftBehindAndIsToldSo) {
  auto ranks = start(3, 2s);
  ranks[0].reset();
  auto one = meeting(*ranks[1], {}), two = meeting(*ranks[2], {});
  const Round round = one.get().value();
  EXPECT_THAT(round.members, ElementsAre(Life{1, 0}, Life{2, 0}));
  EXPECT_THAT(round.lost.at(0).how, HasSubstr("no sign of life for 2 s"));
  EXPECT_TRUE(two.get());
  EXPECT_TRUE(is_left_behind(*store_->part("meeting"), {0, 0}));
  EXPECT_FALSE(is_left_behind(*store_->part("meeting"), {1, 0}));
  auto late = come({0, 0});
  late->begin({{0, 0}, {1, 0}, {2, 0}});
  EXPECT_THAT(message_of<LeftBehind>([&] { (void)late->meet(in_time()); }), HasSubstr("have gone on without it"));
}

// One that lives and is slow is waited for.
TEST_F(RendezvousTest, WhoGivesSignsOfLifeIsWaitedFor) {
  auto ranks = start(2);
  auto first = meeting(*ranks[0]);
  EXPECT_EQ(first.wait_for(200ms), std::future_status::timeout);
  EXPECT_THAT(ranks[1]->meet(in_time())->members, SizeIs(2));
  EXPECT_THAT(first.get()->members, SizeIs(2));
}

TEST_F(RendezvousTest, AtTheDeadlineWhoDidNotComeIsLeftBehind) {
  auto ranks = start(3);
  auto first = meeting(*ranks[0], within(2s)), second = meeting(*ranks[1], within(2s));
  EXPECT_THAT(first.get()->members, ElementsAre(Life{0, 0}, Life{1, 0}));
  EXPECT_TRUE(second.get());
}

TEST_F(RendezvousTest, ASideThatDoesNotPrevailEnds) {
  auto ranks = start(4, 2s);
  for (const std::size_t rank : {0U, 1U}) ranks[rank].reset();
  auto other = meeting(*ranks[3]);
  EXPECT_THAT(message_of<RunError>([&] { (void)ranks[2]->meet(in_time()); }),
              HasSubstr("nothing is known of rank(s) 0, 1, which may go on elsewhere"));
  EXPECT_THROW((void)other.get(), RunError);
}

TEST_F(RendezvousTest, WhoWaitsIsSeenAndComesBehindTheOthers) {
  auto ranks = start(2);
  ranks[0].reset();
  end({0, 0}, "SIGKILL");
  EXPECT_THAT(ranks[1]->meet(in_time())->members, ElementsAre(Life{1, 0}));
  EXPECT_FALSE(ranks[1]->someone_waits());

  auto joiner = come({0, 1});
  auto joined = std::async(std::launch::async, [&] { return joiner->join(in_time()); });
  while (!ranks[1]->someone_waits()) std::this_thread::sleep_for(1ms);
  const Round round = ranks[1]->meet(in_time()).value();
  EXPECT_FALSE(ranks[1]->someone_waits()) << "or they would meet again before an update was made";
  EXPECT_THAT(round.members, ElementsAre(Life{1, 0}, Life{0, 1}));
  EXPECT_THAT(round.joined, ElementsAre(Life{0, 1}));
  EXPECT_THAT(round.lost, IsEmpty());
  EXPECT_EQ(joined.get()->mine, 1);
  EXPECT_FALSE(ranks[1]->someone_waits());

  // And it is a member like any other.
  auto next = meeting(*joiner);
  EXPECT_THAT(ranks[1]->meet(in_time())->members, SizeIs(2));
  EXPECT_EQ(next.get()->number, round.number + 1);
}

TEST_F(RendezvousTest, AJoinerThatDiedIsNotLetIn) {
  auto ranks = start(1);
  auto joiner = come({5, 1});
  auto joined = std::async(std::launch::async, [&] { return joiner->join(within(1s)); });
  while (!ranks[0]->someone_waits()) std::this_thread::sleep_for(1ms);
  end({5, 1}, "exit code 3");
  EXPECT_THAT(ranks[0]->meet(in_time())->members, SizeIs(1));
  EXPECT_THROW((void)joined.get(), DeadlineExceeded);
}

// So that nobody waits for a member that died while the others build their group.
TEST_F(RendezvousTest, WhoComesToARunThatNobodyIsInEndsAtOnce) {
  auto ranks = start(2, 200ms);
  ranks.clear();  // the second without a word: it falls silent
  end({0, 0}, "SIGKILL");
  const auto joiner = come({0, 1}, 200ms);
  EXPECT_THAT(message_of<RunError>([&] { (void)joiner->join(in_time()); }),
              HasSubstr("all 2 ranks of it have ended or give no sign of life"));
}

TEST_F(RendezvousTest, TheDeathOfAMemberBreaksItsRoundAndNoLaterOne) {
  auto ranks = start(2);
  EXPECT_FALSE(ranks[0]->broken().stop_requested());
  end({1, 0}, "SIGKILL");
  EXPECT_EQ(await_break(*ranks[0]), "rank 1 has ended");
  EXPECT_THAT(ranks[0]->meet(in_time())->members, SizeIs(1));
  const auto beats = [&] { return std::stoi(store_->part("meeting")->find("beat/0.0").value_or("0")); };
  ASSERT_TRUE(eventually([&, before = beats()] { return beats() >= before + 3; }));  // a look at the others with each
  EXPECT_FALSE(ranks[0]->broken().stop_requested());
}

TEST_F(RendezvousTest, TheSilenceOfAMemberBreaksItsRoundAtTheDeadline) {
  auto ranks = start(2, kNever, 2s);
  ranks[1].reset();
  EXPECT_EQ(await_break(*ranks[0]), "rank 1 gave no sign of life for 2 s");
}

// The meeting's own connection: the others' signs of life went on meanwhile, and it could not see them.
TEST_F(RendezvousTest, WhoHeardNothingWhileMeetingBlamesNobody) {
  auto ranks = start(3, 1500ms);
  ranks[0].reset();
  end({0, 0}, "SIGKILL");
  auto one = meeting(*ranks[1]);  // waits for rank 2, which lives
  cables_[1].is_held = true;
  cables_[2].is_held = true;
  std::this_thread::sleep_for(1700ms);
  cables_[1].is_held = false;  // rank 2 has given no sign of life for longer than the silence
  auto two = meeting(*ranks[2]);
  cables_[2].is_held = false;
  EXPECT_THAT(one.get()->members, SizeIs(2));
  EXPECT_THAT(two.get()->members, SizeIs(2));
}

TEST_F(RendezvousTest, TheSilentAreLeftBehindWhenTheRunIsOver) {
  auto ranks = start(3, 1000ms);
  ranks[2].reset();
  EXPECT_FALSE(ranks[0]->end_without_the_silent());
  ranks[0]->close();
  EXPECT_TRUE(eventually([&] {
    return ranks[0]->end_without_the_silent() && is_left_behind(*store_->part("meeting"), {2, 0});
  }));
  EXPECT_FALSE(is_left_behind(*store_->part("meeting"), {1, 0}));
}

// As when its process was stopped, or the store's: it heard nothing, so it knows nothing.
TEST_F(RendezvousTest, WhoHeardNothingBlamesNobodyForTheTime) {
  auto ranks = start(2, kNever, 1500ms);
  const auto beats = [&] { return std::stoi(store_->part("meeting")->find("beat/0.0").value_or("0")); };
  ASSERT_TRUE(eventually([&] { return beats() >= 3; }));
  for (Cable& cable : cables_) cable.is_held = true;
  std::this_thread::sleep_for(1700ms);
  const int before = beats();
  cables_[0].is_held = false;
  ASSERT_TRUE(eventually([&] { return beats() >= before + 3; }));
  EXPECT_FALSE(ranks[0]->broken().stop_requested()) << ranks[0]->why_broken();
  cables_[1].is_held = false;
}

TEST_F(RendezvousTest, ABrokenConnectionToTheStoreIsMadeAnew) {
  auto ranks = start(3);
  const auto beats = [&] { return std::stoi(store_->part("meeting")->find("beat/2.0").value_or("0")); };
  for (Cable& cable : cables_) cable.is_cut = true;
  EXPECT_THAT(message_of<RunError>([&] { (void)ranks[0]->meet(in_time()); }),
              AllOf(HasSubstr("the connection is broken"), HasSubstr("the cable is cut")));
  for (Cable& cable : cables_) cable.is_cut = false;
  ASSERT_TRUE(eventually([&, before = beats()] { return beats() >= before + 3; }));
  auto other = meeting(*ranks[1]);
  auto third = meeting(*ranks[2]);
  EXPECT_THAT(ranks[0]->meet(in_time())->members, SizeIs(3));
  EXPECT_THAT(other.get()->members, SizeIs(3));
  EXPECT_TRUE(third.get());
}

TEST_F(RendezvousTest, WhoDoesNotReachTheStoreUntilTheDeadlineIsToldSo) {
  auto ranks = start(1, kNever, 200ms);
  cables_[0].is_cut = true;
  EXPECT_THAT(await_break(*ranks[0]),
              AllOf(HasSubstr("rank 0 has not reached the store for 0.2 s"), HasSubstr("the cable is cut")));
}

// The others have left it behind while its own peers keep it waiting.
TEST_F(RendezvousTest, WhoIsLeftBehindIsToldBeforeItComes) {
  auto ranks = start(2);
  const auto store = store_->part("meeting");
  store->set("round/1/members", "1.0");
  store->set("latest", "1");
  EXPECT_EQ(await_break(*ranks[0]), "the others have met without rank 0");
}

TEST_F(RendezvousTest, TheLauncherSeesToWhoIsStoppedWhenNoMemberDoes) {
  const auto store = store_->part("meeting");
  const auto patience = [&](const Life& who) { return patience_with_stopped(*store, who); };
  EXPECT_EQ(patience({1, 1}), std::nullopt) << "nobody meets anew so far";
  auto ranks = start(2, kNever, 7s);
  EXPECT_EQ(patience({0, 0}), std::nullopt) << "a member, which the others look out for";
  EXPECT_EQ(patience({1, 1}), 7s);
  ranks[1].reset();
  end({1, 0}, "SIGKILL");
  auto joiner = come({1, 1});
  auto joined = std::async(std::launch::async, [&] { return joiner->join(in_time()); });
  while (!ranks[0]->someone_waits()) std::this_thread::sleep_for(1ms);
  EXPECT_THAT(ranks[0]->meet(in_time())->members, SizeIs(2));
  EXPECT_TRUE(joined.get());
  EXPECT_EQ(patience({1, 1}), std::nullopt) << "it was let in";
  ranks[0]->close();
  for (const Life& who : {Life{0, 0}, Life{1, 1}}) EXPECT_EQ(patience(who), 7s);
}

TEST_F(RendezvousTest, AfterTheEndNobodyMeetsOrJoins) {
  auto ranks = start(2);
  ranks[0]->close();
  EXPECT_FALSE(ranks[1]->meet(in_time()).has_value());
  EXPECT_FALSE(come({0, 1})->join(in_time()).has_value());
}

TEST_F(RendezvousTest, AStopEndsTheWait) {
  auto ranks = start(2);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW((void)ranks[0]->meet({.stop = stop.get_token()}), GroupAborted);
  EXPECT_THROW((void)come({0, 1})->join({.stop = stop.get_token()}), GroupAborted);
}

// A member of another version, say: what it wrote ends the wait with a reason, and nothing else happens.
TEST_F(RendezvousTest, AValueThatNoMemberWritesIsNamed) {
  auto ranks = start(2);
  const auto store = store_->part("meeting");
  for (const char* const members : {"", "nobody", "0.0 0.0", "0.0 1.0 -1.0"}) {
    store->set("round/1/members", members);
    EXPECT_THAT(message_of<RunError>([&] { (void)ranks[0]->meet(in_time()); }), HasSubstr("'round/1/members'"))
        << members;
  }
  store->set("latest", "many");
  EXPECT_THAT(message_of<RunError>([&] { (void)come({1, 1})->join(in_time()); }), HasSubstr("'latest'"));
  store->set(kDeadlineKey, "99999999999999999999");
  EXPECT_THAT(message_of<RunError>([&] { (void)deadline_of_run(*store); }), HasSubstr("'deadline'"));
}

// The heartbeat thread reads who asked to join.
TEST_F(RendezvousTest, JoinersThatAreNoneBreakTheRoundAtTheDeadline) {
  const auto store = store_->part("meeting");
  for (const auto& [key, value] : {std::pair("joiners", "1073741824"), std::pair("join/1", "")}) {
    store->set("joiners", "1");
    store->set("join/1", "7.0");
    auto ranks = start(2, kNever, 50ms);
    store->set(key, value);
    EXPECT_THAT(await_break(*ranks[0]), HasSubstr(concat("'", key, "'")));
  }
}

}  // namespace
}  // namespace tandem::comm
