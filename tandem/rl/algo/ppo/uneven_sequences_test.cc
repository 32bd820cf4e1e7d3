// PPO with policies that remember, where env groups make different numbers of steps: rollouts that end early, groups
// that rest, and complete episodes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/algo/testing/recurrent_ppo.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::recurrent_ppo;

// What makes groups uneven.
enum class Uneven { kEarlyEnds, kResting, kMissing, kCompleteEpisodes };
constexpr Uneven kAll[] = {Uneven::kEarlyEnds, Uneven::kResting, Uneven::kMissing, Uneven::kCompleteEpisodes};

PpoSetup uneven_ppo(Uneven uneven, const SequenceOptions& sequences, int replicas = 1) {
  PpoSetup setup = recurrent_ppo(sequences, replicas);
  switch (uneven) {
    case Uneven::kEarlyEnds:
      setup.stragglers.recorded = {{32, 9, 20, 1}, {5, 32, 31, 13}, {32, 32, 2, 8}, {17, 16, 15, 14}};
      break;
    case Uneven::kResting:
      setup.stragglers.recorded = {{32, 0, 20, 0}, {0, 32, 0, 0}, {32, 0, 0, 8}, {1, 0, 32, 0}};
      break;
    case Uneven::kMissing:  // one rank of two, and with it half of the groups
      setup.ranks = learner::Ranks().out_of(2);
      setup.while_missing = WhileMissing::kShareRests;
      break;
    case Uneven::kCompleteEpisodes:
      setup.ppo.batch_mode = BatchMode::kCompleteEpisodes;
      break;
  }
  return setup;
}

// With the policy that acted, ratios are 1 for every row that is learned from: each sequence has the state that acting
// had there.
TEST(UnevenSequencesTest, EveryRowIsSeenAsItWasWhenActing) {
  for (const Uneven uneven : kAll) {
    for (const SequenceOptions sequences : {SequenceOptions{32, 0}, SequenceOptions{7, 0}, SequenceOptions{8, 5},
                                            SequenceOptions{5, 9}, SequenceOptions{1, 0}, SequenceOptions{40, 40}}) {
      PpoSetup setup = uneven_ppo(uneven, sequences);
      setup.ppo.epochs = 1;
      setup.ppo.minibatches = 1;
      setup.ppo.learning_rate = 1e-2;
      PpoRun run(std::move(setup));
      for (int i = 0; i < 4; ++i) {
        const std::int64_t before = run.env_steps();
        const RunReport report = run.update();
        const std::string where = concat(static_cast<int>(uneven), " ", sequences.length, " ", sequences.burn_in);
        EXPECT_NEAR(report.learning.approx_kl, 0, 1e-7) << where;
        EXPECT_NEAR(report.learning.policy_loss, 0, 1e-4) << where;
        EXPECT_EQ(report.learning.clip_fraction, 0) << where;
        // Each step is a row once, and nothing else is.
        EXPECT_EQ(report.ranks.front().learning->rows, static_cast<double>(run.env_steps() - before)) << where;
      }
    }
  }
}

// The mean is over those rows: the same losses for all cuts.
TEST(UnevenSequencesTest, PaddingAndBurnInCountForNothingInTheMeans) {
  for (const Uneven uneven : kAll) {
    const auto first = [uneven](const SequenceOptions& sequences) {
      PpoSetup setup = uneven_ppo(uneven, sequences, 2);
      setup.ppo.epochs = 1;
      setup.ppo.minibatches = 1;
      PpoRun run(std::move(setup));
      return run.update().learning;
    };
    const LearnReport expected = first({600, 0});
    for (const SequenceOptions sequences : {SequenceOptions{31, 0}, SequenceOptions{7, 0}, SequenceOptions{9, 4}}) {
      const LearnReport other = first(sequences);
      EXPECT_NEAR(other.value_loss, expected.value_loss, 1e-5 * expected.value_loss);
      EXPECT_NEAR(other.entropy, expected.entropy, 1e-6);
    }
  }
}

// Which groups rest while a rank is missing follows from the replicas.
TEST(UnevenSequencesTest, EveryTopologyGivesTheSameBitsAlsoAfterALoad) {
  for (const Uneven uneven : {Uneven::kEarlyEnds, Uneven::kResting, Uneven::kCompleteEpisodes}) {
    PpoRun whole(uneven_ppo(uneven, {10, 3}));
    for (int i = 0; i < 4; ++i) (void)whole.update();
    PpoRun first(uneven_ppo(uneven, {10, 3}, 2));
    for (int i = 0; i < 2; ++i) (void)first.update();
    const learner::StateParts parts = first.save();
    PpoRun second(uneven_ppo(uneven, {10, 3}, 4));
    EXPECT_EQ(second.load([&parts](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    for (int i = 0; i < 2; ++i) (void)second.update();
    EXPECT_EQ(second.state_sha256(), whole.state_sha256()) << static_cast<int>(uneven);
  }
}

// 9 steps are one sequence of each of a shard's two environments.
TEST(UnevenSequencesTest, ARecordThatLeavesAMinibatchWithoutSequencesIsRefused) {
  PpoSetup setup = uneven_ppo(Uneven::kEarlyEnds, {10, 0});
  setup.ppo.minibatches = 4;
  setup.stragglers.recorded = {{32, 9, 20, 1}, {5, 9, 8, 9}};
  EXPECT_THAT(message_of<ConfigError>([&] { const PpoRun run(setup); }),
              AllOf(HasSubstr("update 2 has groups of 9 steps at most"), HasSubstr("2 sequences"),
                    HasSubstr("fewer than the 4 minibatches")));
  setup.stragglers.recorded.pop_back();
  EXPECT_NO_THROW(PpoRun{setup});
}

}  // namespace
}  // namespace tandem::rl
