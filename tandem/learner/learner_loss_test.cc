// What a loss may return, and what becomes of it (A-F3, A21).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/learner/testing/scale_team.h"

namespace tandem::learner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using LossOf = std::function<ShardLoss(Scale&, const ShardBatch&)>;

Batch four_rows_a_shard(int shards) {
  return {.columns = {{"x", torch::ones({4 * shards, 3}, torch::kDouble)}}, .states = {}};
}

// One step; the report of each replica.
std::vector<LearnerReport> step(ReplicaTeam& team, int shards, const LossOf& loss) {
  std::vector<LearnerReport> reports(static_cast<std::size_t>(team.size()));
  const Batch batch = four_rows_a_shard(shards);
  team.run([&](Member& member) {
    member.learner.batch().load(batch, 4 * shards, Tail::kDrop);
    member.learner.begin_pass(Order::kSequential);
    reports[static_cast<std::size_t>(member.replica.placement().replica)] = member.learner.step(
        0, [&](const ShardBatch& rows) { return loss(scale_of(member), rows); }, 1.0, sync::kNoLimits);
  });
  return reports;
}

std::string failure_of(int shards, int replicas, const LossOf& loss) {
  ReplicaTeam team = make_scale_team(shards, replicas);
  try {
    (void)step(team, shards, loss);
  } catch (const RunError& error) {
    return error.what();
  }
  return "accepted";
}

torch::Tensor weight_of(ReplicaTeam& team) {
  Member member = team.member(0);
  return scale_of(member).weight.detach();
}

TEST(LearnerLossTest, ALossThatIsNoScalarWithAGradientIsRefusedNamingTheShard) {
  const auto only_shard_one = [](const std::function<torch::Tensor(Scale&)>& wrong) {
    return [wrong](Scale& net, const ShardBatch& rows) {
      return ShardLoss{.loss = rows.shard == 1 ? wrong(net) : net.weight.sum(), .weight = 1, .outputs = {}};
    };
  };
  EXPECT_THAT(failure_of(2, 1, only_shard_one([](Scale& net) { return net.weight * 2; })),
              AllOf(HasSubstr("the loss of shard 1 is no scalar"), HasSubstr("[3]")));
  EXPECT_THAT(failure_of(2, 1, only_shard_one([](Scale&) { return torch::Tensor(); })),
              HasSubstr("the loss of shard 1 is undefined"));
  EXPECT_THAT(failure_of(2, 1, only_shard_one([](Scale& net) { return net.weight.detach().sum(); })),
              HasSubstr("the loss of shard 1 is without a gradient"));
  EXPECT_EQ(failure_of(2, 1, only_shard_one([](Scale& net) { return net.weight.sum().reshape({1}); })), "accepted");
}

TEST(LearnerLossTest, ALossThatIsNotFiniteNamesReplicaShardAndMinibatch) {
  EXPECT_THAT(failure_of(2, 2,
                         [](Scale& net, const ShardBatch& rows) {
                           const double factor = rows.shard == 1 ? std::nan("") : 1;
                           return ShardLoss{.loss = net.weight.sum() * factor, .weight = 1, .outputs = {}};
                         }),
              HasSubstr("replica 1 on cpu, shard 1: the loss of minibatch 0 is nan"));
}

// Names the shard's rows, which hold one element that is not finite, then one that is large, then neither.
TEST(LearnerLossTest, ALossThatIsNotFiniteNamesItsPartAndTheElementThatMadeIt) {
  const auto failure = [](double element, double parameter = 1) {
    ReplicaTeam team = make_scale_team(2, 2);
    Batch batch = four_rows_a_shard(2);
    batch.columns[0].second[6][1] = element;  // the third row of shard 1
    team.run([&](Member& member) {
      const torch::NoGradGuard no_grad;
      scale_of(member).weight.fill_(parameter);
    });
    try {
      team.run([&](Member& member) {
        member.learner.batch().load(batch, 8, Tail::kDrop);
        member.learner.name_batch(
            {.row = [](int shard, std::int64_t row) { return concat("sample ", 100 * shard + row); }});
        member.learner.begin_pass(Order::kShuffled);
        const auto loss = [&](const ShardBatch& rows) {
          const double infinite = rows.shard == 1 ? INFINITY : 1;
          return ShardLoss{.loss = scale_of(member).weight.sum() * infinite,
                           .weight = 4,
                           .outputs = {},
                           .parts = {{{"error", 0.5}, {"penalty", infinite}}}};
        };
        (void)member.learner.step(0, LossFunction(loss), 1.0, sync::kNoLimits);
      });
    } catch (const RunError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto begins = HasSubstr("shard 1: the loss of minibatch 0 is inf. Its part 'penalty' is inf (error 0.5). ");
  const auto lr = HasSubstr("learning rate");
  EXPECT_THAT(
      failure(INFINITY),
      AllOf(begins, HasSubstr("column 'x' in row 2, element 1 of the shard (sample 102) is inf"), ::testing::Not(lr)));
  EXPECT_THAT(failure(-1e25),
              AllOf(begins, HasSubstr("(sample 102) is -1e+25, whose square is beyond float32"), ::testing::Not(lr)));
  EXPECT_THAT(failure(3), AllOf(begins,
                                HasSubstr("What it was computed from is finite, at most 3. The parameters are at "
                                          "most 1, so the loss itself makes it"),
                                ::testing::Not(lr)));
  EXPECT_THAT(failure(3, 1e9), AllOf(begins, HasSubstr("The largest parameter is 1e+09, of 'weight': the training has "
                                                       "diverged; a smaller learning rate")));
}

// The square root of 0 has an infinite slope: the loss is finite, and the error comes from the mean of the gradients.
TEST(LearnerLossTest, AGradientThatIsNotFiniteTellsOfTheGivenElementThatIsTooLarge) {
  const auto failure = [](double element, bool is_given) {
    ReplicaTeam team = make_scale_team(2, 1);
    Batch batch = four_rows_a_shard(2);
    batch.columns[0].second[6][1] = element;
    try {
      team.run([&](Member& member) {
        member.learner.batch().load(batch, 8, Tail::kDrop);
        member.learner.name_batch({.row = {}, .column = [is_given](const std::string& name, std::size_t nth) {
                                     return ColumnName{.text = concat("leaf ", nth, " of ", name),
                                                       .is_given = is_given,
                                                       .next_step = "Show less"};
                                   }});
        member.learner.begin_pass(Order::kSequential);
        const auto loss = [&](const ShardBatch&) {
          const torch::Tensor weight = scale_of(member).weight;
          return ShardLoss{.loss = (weight - weight.detach()).sqrt().sum(), .weight = 4, .outputs = {}};
        };
        (void)member.learner.step(0, LossFunction(loss), 1.0, sync::kNoLimits);
      });
    } catch (const RunError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const auto begins = AllOf(HasSubstr("the gradient of 'weight'"), HasSubstr("is not finite"));
  EXPECT_THAT(failure(-2e6, true),
              AllOf(begins, HasSubstr("shard 1: Of what it was computed from, leaf 0 of x in row 2, "
                                      "element 1 of the shard is -2e+06, and losses and gradients "
                                      "grow with it. Show less")));
  EXPECT_THAT(failure(-2e6, false), AllOf(begins, ::testing::Not(HasSubstr("computed from"))));
  EXPECT_THAT(failure(9e5, true), AllOf(begins, ::testing::Not(HasSubstr("computed from"))));
}

// The loss itself goes round the parameter, whose gradient a backward pass would refuse before anybody looked at it.
TEST(LearnerLossTest, AGradientReplacedByOneOfAnotherShapeNamesReplicaDeviceShardParameterAndBothShapes) {
  EXPECT_THAT(failure_of(4, 2,
                         [](Scale& net, const ShardBatch& rows) {
                           if (rows.shard == 3) net.weight.mutable_grad() = torch::ones({2}, torch::kDouble);
                           torch::Tensor loss = torch::ones({}, torch::kDouble);
                           loss.set_requires_grad(true);
                           return ShardLoss{.loss = loss, .weight = 1, .outputs = {}};
                         }),
              AllOf(HasSubstr("replica 1 on cpu, shard 3: "), HasSubstr("parameter \"weight\"'s has shape [2], Double"),
                    HasSubstr("the parameter has [3], Double")));
}

// Shard s has the loss s + 1 and the weight s + 1. Of three shards the first replica keeps two.
TEST(LearnerLossTest, ReportsGiveTheWeightedMeanOfEachReplicaAndOfAll) {
  ReplicaTeam team = make_scale_team(3, 2);
  const auto reports = step(team, 3, [](Scale& net, const ShardBatch& rows) {
    const double number = rows.shard + 1;
    return ShardLoss{.loss = net.weight.sum() + number, .weight = number, .outputs = {}};
  });
  EXPECT_DOUBLE_EQ(reports[0].replica_loss, (1.0 * 1 + 2 * 2) / 3);
  EXPECT_DOUBLE_EQ(reports[1].replica_loss, 3);
  EXPECT_EQ(reports[0].rows, 8);
  EXPECT_EQ(reports[1].rows, 4);
  for (const LearnerReport& report : reports) {
    EXPECT_DOUBLE_EQ(report.step.loss, (1.0 * 1 + 2 * 2 + 3 * 3) / 6);
    EXPECT_EQ(report.step.weight, 6);
  }
}

// The loss of a shard without rows is not looked at: it may be undefined or not a number.
TEST(LearnerLossTest, AShardWithoutRowsLeavesTheMeanToTheOthers) {
  for (const torch::Tensor& nothing : {torch::Tensor(), torch::full({}, std::nan(""), torch::kDouble)}) {
    for (const int replicas : {1, 2}) {
      ReplicaTeam team = make_scale_team(2, replicas, /*lr=*/0.5);
      const auto reports = step(team, 2, [&](Scale& net, const ShardBatch& rows) {
        if (rows.shard == 0) return ShardLoss{.loss = nothing, .weight = 0, .outputs = {}};
        return ShardLoss{.loss = net.weight.sum() * 3 + 7, .weight = 4, .outputs = {}};
      });
      EXPECT_TRUE(torch::equal(weight_of(team), torch::full({3}, -1.5, torch::kDouble))) << weight_of(team);
      EXPECT_EQ(reports[0].replica_loss, replicas == 1 ? 7 : 0);
      EXPECT_EQ(reports[0].step.loss, 7);
    }
  }
}

TEST(LearnerLossTest, AStepInWhichNoShardHasRowsIsAnError) {
  EXPECT_THAT(failure_of(2, 2, [](Scale&, const ShardBatch&) { return ShardLoss{}; }),
              HasSubstr("no shard had a valid row"));
}

}  // namespace
}  // namespace tandem::learner
