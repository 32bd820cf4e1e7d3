// Ranks as threads that meet over a real store and real sockets.
#include "tandem/sync/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <atomic>
#include <functional>
#include <ostream>
#include <string>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/armed_fault.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/obituary.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRun = "local-steps-test";

// What a rank of a test does with its LocalSteps, and what it was told.
struct LocalRank {
  int rank = 0, restarts = 0;
  std::string said = {}, failed = {}, hash = {};
  std::int64_t began_at = -1;
};

class LocalStepsTest : public ::testing::Test {
 protected:
  using Loop = std::function<void(LocalRank&, LocalSteps&, const std::function<void()>& step)>;

  // `step` makes an optimizer step and counts it. Ends with the hash of the parameters.
  void run_rank(LocalRank& mine, const Loop& loop) const { run_rank(mine, loop, options_); }
  void run_rank(LocalRank& mine, const Loop& loop, const LocalStepsOptions& options) const {
    LocalRanks ranks;
    ranks.me = {.launcher = comm::Launcher::kVariables,
                .rank = mine.rank,
                .world_size = 3,
                .local_rank = mine.rank,
                .master = {"127.0.0.1", store_.place.endpoint.port},
                .launcher_hosts_store = true,
                .run_id = kRun,
                .rank_restarts = mine.restarts};
    ranks.world.backend = comm::Backend::kTcp;
    ranks.late = late_;
    ranks.patience = patience_;
    ranks.say = [&mine](const std::string& line) { mine.said += line + "\n"; };
    try {
      const auto net = std::make_shared<torch::nn::LinearImpl>(6, 1);
      LocalSteps local(net, options, ranks);
      mine.began_at = local.steps();
      torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
      loop(mine, local, [&] {
        optimizer.zero_grad();
        const torch::Tensor x =
            torch::sin(torch::arange(12, torch::kFloat).view({2, 6}) + static_cast<float>(mine.rank));
        (net->forward(x) - 1).square().mean().backward();
        optimizer.step();
        local.step(2);
      });
      mine.hash = model::bytes_sha256(model::named_parameters_of(*net));
    } catch (const std::exception& error) {
      mine.failed = error.what();
    }
  }

  // A newcomer that is there in each meeting, but in no world, as far as the others can see.
  void meet_but_open_no_world() const;

  LocalStepsOptions options_{.every = 4};
  Clock::duration late_ = 30s, patience_ = 5min;

 private:
  const comm::HostedStore store_ = comm::host_store({});
};

TEST_F(LocalStepsTest, AllEndWithTheMeanOfTheirParameters) {
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        run_rank(rank, [](LocalRank&, LocalSteps& local, const auto& step) {
          EXPECT_EQ(local.size(), 3);
          while (local.steps() < 10) step();
          local.finish();
          EXPECT_EQ(local.totals().exchanges, 2);
        });
      });
    }
  }
  for (const LocalRank& rank : ranks) {
    EXPECT_EQ(rank.failed, "");
    EXPECT_EQ(rank.said, "");
    EXPECT_EQ(rank.began_at, 0);
    EXPECT_EQ(rank.hash, ranks[0].hash);
  }
}

constexpr std::int64_t kMost = 20'000;

// Where a newcomer finds rank 0: it makes no more than so many steps, and then calls `end`, as all do.
struct JoinCase {
  std::string name;
  std::int64_t most_of_rank_0 = kMost;
  std::function<void(LocalSteps&)> end = [](LocalSteps& local) { local.finish(); };

  friend void PrintTo(const JoinCase& its, std::ostream* out) { *out << its.name; }
};

class LocalStepsJoinTest : public LocalStepsTest, public ::testing::WithParamInterface<JoinCase> {};

// Rank 1 ends in the midst of its steps; another life of it begins when the others have gone on, and joins. The others
// go on until the newcomer is there. Who waits for the others takes part when these let it in.
TEST_P(LocalStepsJoinTest, ARankThatEndsIsMissedAndAnotherLifeOfItJoins) {
  LocalRank first{.rank = 0}, last{.rank = 2}, lost{.rank = 1}, again{.rank = 1, .restarts = 1};
  std::atomic<bool> have_gone_on = false, has_joined = false;
  const auto until_joined = [&](LocalSteps& local, const auto& step, std::int64_t most) {
    while (!(has_joined && local.size() == 3 && local.steps() % 4 == 0) && local.steps() < most) {
      step();
      if (local.size() == 2 && !have_gone_on.exchange(true)) have_gone_on.notify_all();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_LT(local.steps(), kMost);
    GetParam().end(local);
  };
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      run_rank(first, [&](LocalRank&, LocalSteps& local, const auto& step) {
        until_joined(local, step, GetParam().most_of_rank_0);
      });
    });
    threads.emplace_back([&] {
      run_rank(last, [&](LocalRank&, LocalSteps& local, const auto& step) { until_joined(local, step, kMost); });
      if (!have_gone_on.exchange(true)) have_gone_on.notify_all();  // a failure
    });
    threads.emplace_back([&] {
      run_rank(lost, [&](LocalRank&, LocalSteps&, const auto& step) {
        for (int i = 0; i < 7; ++i) step();
        throw RunError("the rank's loader failed");
      });
    });
    threads.emplace_back([&] {
      have_gone_on.wait(false);
      run_rank(again, [&](LocalRank& mine, LocalSteps& local, const auto& step) {
        // It begins where those are that make steps.
        EXPECT_GE(mine.began_at, 8);
        EXPECT_EQ(mine.began_at % 4, 0);
        step();
        has_joined = true;
        until_joined(local, step, kMost);
      });
    });
  }
  EXPECT_THAT(lost.failed, HasSubstr("the rank's loader failed"));
  for (const LocalRank* rank : {&first, &last, &again}) EXPECT_EQ(rank->failed, "");
  for (const LocalRank* rank : {&first, &last})
    EXPECT_THAT(rank->said, AllOf(HasSubstr("rank 1 is lost"), HasSubstr("rank 1 joins")));
  EXPECT_EQ(last.hash, first.hash);
  EXPECT_EQ(again.hash, first.hash);
}

INSTANTIATE_TEST_SUITE_P(Places, LocalStepsJoinTest,
                         ::testing::Values(JoinCase{.name = "WhileAllMakeSteps"},
                                           JoinCase{.name = "WhileAnotherWaitsInFinish", .most_of_rank_0 = 2},
                                           JoinCase{.name = "WhileAnotherWaitsInAgree",
                                                    .most_of_rank_0 = 2,
                                                    .end =
                                                        [](LocalSteps& local) {
                                                          local.agree();
                                                          local.finish();
                                                        }}),
                         [](const auto& its) { return its.param.name; });

TEST_F(LocalStepsTest, ARankThatIsLateIsLeftOutAndComesBack) {
  late_ = 500ms;
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  std::atomic<bool> is_back = false;
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        run_rank(rank, [&](LocalRank& mine, LocalSteps& local, const auto& step) {
          for (int i = 0; i < 6; ++i) step();
          if (mine.rank == 2) {
            std::this_thread::sleep_for(4s);
            while (local.steps() < 8 || local.size() < 3) step();
            is_back = true;
          }
          while (!(is_back && local.size() == 3 && local.steps() % 4 == 0)) {
            step();
            std::this_thread::sleep_for(2ms);
          }
          local.finish();
        });
      });
    }
  }
  for (const LocalRank& rank : ranks) {
    EXPECT_EQ(rank.failed, "");
    EXPECT_EQ(rank.hash, ranks[0].hash);
  }
  EXPECT_THAT(ranks[0].said, AllOf(HasSubstr("rank 2 is lost"), HasSubstr("rank 2 joins")));
  EXPECT_THAT(ranks[2].said, HasSubstr("was late, and the others have gone on; comes back with their parameters"));
}

// Rank 0 waits far longer than for a single exchange.
TEST_F(LocalStepsTest, FinishWaitsForEachExchangeAnew) {
  patience_ = 3s;
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        run_rank(rank, [](LocalRank& mine, LocalSteps& local, const auto& step) {
          while (local.steps() < (mine.rank == 0 ? 1 : 70)) {
            step();
            std::this_thread::sleep_for(60ms);
          }
          local.finish();
        });
      });
    }
  }
  for (const LocalRank& rank : ranks) {
    EXPECT_EQ(rank.failed, "");
    EXPECT_EQ(rank.said, "");
    EXPECT_EQ(rank.hash, ranks[0].hash);
  }
}

// One of the two that are left is held up between their world and their first exchange in it.
TEST_F(LocalStepsTest, RanksThatMeetAnewWaitLongerThanAtAnExchange) {
  late_ = 1s;
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  {
    std::vector<std::jthread> threads;
    const ArmedFault holds_up({.point = "world.met", .passage = 4, .kind = FaultKind::kHang});
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        run_rank(rank, [](LocalRank& mine, LocalSteps& local, const auto& step) {
          for (int i = 0; i < 2; ++i) step();
          if (mine.rank == 1) throw RunError("the rank's loader failed");
          while (local.steps() < 10) step();
          local.finish();
        });
      });
    }
    EXPECT_TRUE(eventually([] { return hanging_at_faults() == 1; }));
    std::this_thread::sleep_for(2 * late_);
  }
  const std::string anew = "the ranks meet anew";
  for (const LocalRank* rank : {&ranks[0], &ranks[2]}) {
    EXPECT_EQ(rank->failed, "");
    EXPECT_THAT(rank->said, HasSubstr(anew));
    EXPECT_EQ(rank->said.find(anew), rank->said.rfind(anew)) << rank->said;
    EXPECT_EQ(rank->hash, ranks[0].hash);
  }
}

void LocalStepsTest::meet_but_open_no_world() const {
  constexpr int kMostRounds = 20;
  const auto store = [this] { return comm::connect_to_store(store_.place, within(30s)); };
  comm::Rendezvous rendezvous([&](const std::stop_token&) { return comm::rendezvous_part(*store(), kRun, 0); },
                              {.rank = 3, .restarts = 1});
  try {
    std::optional<comm::Round> round = rendezvous.join(within(60s));
    for (int i = 0; i < kMostRounds && round; ++i) {
      const std::string world = comm::run_part(concat(kRun, "/round-", round->number), 0, 0);
      comm::write_obituary(*store()->part(world), round->mine, "was never there");
      round = rendezvous.meet(within(60s));
    }
  } catch (const RunError&) {
    return;  // the others have given up
  }
}

TEST_F(LocalStepsTest, RanksThatLoseEachOtherAgainAndAgainGiveUp) {
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  std::atomic<bool> has_ended = false;
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        run_rank(rank, [&](LocalRank&, LocalSteps& local, const auto& step) {
          while (!has_ended) {
            step();
            std::this_thread::sleep_for(1ms);
          }
          local.finish();
        });
      });
    }
    threads.emplace_back([&] {
      meet_but_open_no_world();
      has_ended = true;
    });
  }
  for (const LocalRank& rank : ranks) {
    EXPECT_THAT(rank.said, HasSubstr("round 1 came to nothing: rank 3 of 4 ended (was never there)"));
    EXPECT_THAT(rank.failed, HasSubstr("have met 6 times without a step between, and lost each other again"));
  }
}

TEST_F(LocalStepsTest, RanksWithOtherOptionsAreRefused) {
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks) {
      threads.emplace_back([&] {
        LocalStepsOptions mine = options_;
        if (rank.rank == 1) mine.every = 25;
        run_rank(
            rank, [](LocalRank&, LocalSteps&, const auto&) {}, mine);
      });
    }
  }
  for (const LocalRank& rank : ranks)
    EXPECT_THAT(rank.failed, AllOf(HasSubstr("rank 0 every 4, "), HasSubstr("rank 1 every 25, ")));
}

// Says so where somebody listens.
TEST_F(LocalStepsTest, WhoForgetsToFinishIsTold) {
  std::vector<LocalRank> ranks{{.rank = 0}, {.rank = 1}, {.rank = 2}};
  {
    std::vector<std::jthread> threads;
    for (LocalRank& rank : ranks)
      threads.emplace_back([&] {
        run_rank(
            rank, [](LocalRank&, LocalSteps&, const auto& step) { step(); }, options_);
      });
  }
  for (const LocalRank& rank : ranks) EXPECT_THAT(rank.said, HasSubstr("ends without finish()"));
}

TEST_F(LocalStepsTest, WrongRowsAndOptionsAreNamed) {
  options_.fragments = 9;
  LocalRank alone{};
  run_rank(alone, [](LocalRank&, LocalSteps&, const auto&) {});
  EXPECT_THAT(alone.failed, HasSubstr("local_steps.fragments is 9"));
  LocalRanks single;
  single.me = {};
  LocalSteps local(std::make_shared<torch::nn::LinearImpl>(6, 1), {}, single);
  EXPECT_THROW(local.step(-1), ConfigError);
  EXPECT_THROW(local.step(std::nan("")), ConfigError);
}

}  // namespace
}  // namespace tandem::sync
