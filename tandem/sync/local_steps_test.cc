// Ranks as threads that meet over a real store and real sockets.
#include "tandem/sync/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <atomic>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
                .run_id = "local-steps-test",
                .rank_restarts = mine.restarts};
    ranks.world.backend = comm::Backend::kTcp;
    ranks.late = late_;
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

  LocalStepsOptions options_{.every = 4};
  Clock::duration late_ = 30s;

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

// Rank 1 ends in the midst of its steps; another life of it begins when the others have gone on, and joins.
TEST_F(LocalStepsTest, ARankThatEndsIsMissedAndAnotherLifeOfItJoins) {
  LocalRank first{.rank = 0}, last{.rank = 2}, lost{.rank = 1}, again{.rank = 1, .restarts = 1};
  std::atomic<bool> has_ended = false, has_joined = false;
  const auto until_joined = [&](LocalRank&, LocalSteps& local, const auto& step) {
    while (!(has_joined && local.size() == 3 && local.steps() % 4 == 0) && local.steps() < 2000) {
      step();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_LT(local.steps(), 2000);
    local.finish();
  };
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { run_rank(first, until_joined); });
    threads.emplace_back([&] { run_rank(last, until_joined); });
    threads.emplace_back([&] {
      run_rank(lost, [&](LocalRank&, LocalSteps&, const auto& step) {
        for (int i = 0; i < 7; ++i) step();
        throw RunError("the rank's loader failed");
      });
      has_ended = true;
      has_ended.notify_all();
    });
    threads.emplace_back([&] {
      has_ended.wait(false);
      run_rank(again, [&](LocalRank& mine, LocalSteps& local, const auto& step) {
        EXPECT_GE(mine.began_at, 4);
        step();
        has_joined = true;
        until_joined(mine, local, step);
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
