// What one rank does wrong is said on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/base/testing/free_port.h"
#include "tests/failure/training_ranks.h"

namespace tandem::failure_test {
namespace {

using process_test::Ended;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kMembers = 3;

std::vector<Ended> outcomes_of(const std::string& fault) {
  const Place place{.port = free_port()};
  auto ranks = start_ranks(kMembers, place, {fault});
  return wait_for(ranks);
}

template <typename Says>
void expect_all(const std::vector<Ended>& outcomes, int exit_code, const Says& says) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].exit_code, exit_code) << "rank " << rank << ": " << outcomes[rank].how();
    EXPECT_THAT(outcomes[rank].err, says) << "rank " << rank;
  }
}

TEST(FaultsTest, ModelsThatDifferNameTheParameterAndTheRank) {
  expect_all(outcomes_of("model"), 2,
             AllOf(HasSubstr("replica 1 has 8 parameters; parameter 0.weight Float [9, 16]"),
                   HasSubstr("replica 2 has 8 parameters; parameter 0.weight Float [8, 16]")));
}

TEST(FaultsTest, ShapesThatDifferAreNamedWithTheirRanks) {
  expect_all(outcomes_of("shape"), 3,
             AllOf(ContainsRegex("collective #[0-9]+ differs"), HasSubstr("all_reduce of 2000 x Float"),
                   HasSubstr("all_reduce of 2001 x Float"), HasSubstr("rank 1")));
}

// It is a step behind for good; the others miss it when they come to their last.
TEST(FaultsTest, ARankThatSkippedAStepIsNamed) {
  const std::vector<Ended> outcomes = outcomes_of("skip");
  for (const int rank : {0, 2}) {
    const Ended& ended = outcomes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(ended.exit_code, 3) << ended.how();
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("the sum of the gradients 0.weight..6.bias: "), HasSubstr("rank 1 (process "),
                      HasSubstr("left the group"), HasSubstr("last sign of life"), HasSubstr("began last #")));
  }
}

TEST(FaultsTest, ARankWithFewerBatchesHoldsNobodyUp) {
  const std::vector<Ended> outcomes = outcomes_of("fewer");
  expect_all(outcomes, 0, ::testing::IsEmpty());
  EXPECT_EQ(outcomes[0].out, "6 steps\n");
  EXPECT_EQ(outcomes[1].out, "4 steps\n");
}

TEST(FaultsTest, AGradientThatIsNotFiniteIsNamedOnAllRanks) {
  expect_all(
      outcomes_of("nan"), 3,
      AllOf(HasSubstr("step 2: the loss was not finite on replica 1 (shard 1: nan), and so the gradient of '0.weight'"),
            ::testing::Not(HasSubstr("learning rate"))));
}

TEST(FaultsTest, AMemoryLimitThatOneRankReachesEndsAll) {
  for (const auto& [limit, says] : {std::pair{"memory", "bytes that this machine has"},
                                    std::pair{"container", "MiB are free on this host or in this container"}}) {
    const std::vector<Ended> outcomes = outcomes_of(limit);
    for (const Ended& ended : outcomes) EXPECT_EQ(ended.exit_code, 3) << ended.how() << ended.err;
    EXPECT_THAT(outcomes[1].err, AllOf(HasSubstr("shared memory of the host group: "), HasSubstr(says)));
    for (const std::size_t rank : {0U, 2U})
      EXPECT_THAT(outcomes[rank].err, AllOf(HasSubstr("rank 1 (process "), HasSubstr(") left by an exception")));
  }
}

}  // namespace
}  // namespace tandem::failure_test
