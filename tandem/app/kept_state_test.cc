// Ranks as threads, which have kept the states of different updates.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"

namespace tandem::app {
namespace {

// What each of the ranks has after share_newest(); `updates`: before, -1 where it has none.
std::vector<KeptState> shared(const std::vector<int>& updates) {
  std::vector<KeptState> kept(updates.size());
  std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(static_cast<int>(updates.size()));
  std::vector<std::jthread> ranks;
  for (std::size_t rank = 0; rank < updates.size(); ++rank) {
    if (updates[rank] >= 0) {
      kept[rank].updates = updates[rank];
      kept[rank].parts = {{"run", {{"made", at::full({1}, updates[rank], at::kLong)}}}};
      kept[rank].line = concat("line ", updates[rank]);
      kept[rank].progress.solved_at_env_steps = 100 * updates[rank];
      kept[rank].progress.resumed = ResumeExactness::kExact;
    }
    ranks.emplace_back([&kept, rank, group = std::shared_ptr<comm::Group>(std::move(groups[rank]))] {
      try {
        share_newest(learner::Ranks(group), kept[rank]);
      } catch (const RunError&) {
        kept[rank].updates = -2;
      }
    });
  }
  ranks.clear();
  return kept;
}

TEST(KeptStateTest, AllGetTheNewestStateThatAnyHas) {
  for (const std::vector<int>& updates : {std::vector<int>{4, 5, 4}, {5, 4, -1}, {-1, -1, 5}, {5, 5, 5}}) {
    for (const KeptState& kept : shared(updates)) {
      EXPECT_EQ(kept.updates, 5);
      EXPECT_EQ(learner::part_of(kept.parts, "run").front().second.item<std::int64_t>(), 5);
      EXPECT_EQ(kept.line, "line 5");
      EXPECT_EQ(kept.progress.solved_at_env_steps, 500);
      EXPECT_EQ(kept.progress.resumed, ResumeExactness::kExact);
    }
  }
}

TEST(KeptStateTest, WhoeverDiesWhileItIsHandedRoundTheOthersKeepTheirs) {
  std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(2);
  std::jthread dies([group = std::shared_ptr<comm::Group>(std::move(groups[1]))] {
    const learner::Ranks ranks(group);
    (void)ranks.gather({5, 0, 0, 0});  // it has update 5 ...
    ranks.abort("killed");             // ... and does not hand it over
  });
  KeptState kept{.updates = 4, .parts = {{"run", {{"made", at::full({1}, 4, at::kLong)}}}}};
  EXPECT_THROW(share_newest(learner::Ranks(std::shared_ptr<comm::Group>(std::move(groups[0]))), kept), RunError);
  EXPECT_EQ(kept.updates, 4);
  EXPECT_EQ(learner::part_of(kept.parts, "run").front().second.item<std::int64_t>(), 4);
}

TEST(KeptStateTest, WithoutAnyStateThereIsNothingToGoOnFrom) {
  for (const KeptState& kept : shared({-1, -1})) EXPECT_EQ(kept.updates, -2);
}

}  // namespace
}  // namespace tandem::app
