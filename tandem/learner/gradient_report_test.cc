#include <gtest/gtest.h>

#include "tandem/learner/replica_team.h"

namespace tandem::learner {
namespace {

sync::StepSizes step_of(double gradients, double rows) {
  return {.steps = 1, .gradients = {gradients, gradients, gradients}, .rows = {rows, rows, rows}};
}

TEST(GradientReportTest, SizesOfStepsAddUpWithTheirLeastAndMost) {
  sync::StepSizes all;
  all.add({});
  EXPECT_EQ(all.steps, 0);
  EXPECT_EQ(all.mean_of(&sync::StepSizes::rows), 0);
  sync::StepSizes more = step_of(2, 64);
  more.add(step_of(3, 100));
  all.add(more);
  all.add(step_of(1, 80));
  all.add({});
  EXPECT_EQ(all.steps, 3);
  EXPECT_EQ(all.gradients.least, 1);
  EXPECT_EQ(all.gradients.most, 3);
  EXPECT_EQ(all.mean_of(&sync::StepSizes::gradients), 2);
  EXPECT_EQ(all.rows.least, 64);
  EXPECT_EQ(all.rows.most, 100);
}

TEST(GradientReportTest, TheTableHasARowAReplicaAndTheSteps) {
  sync::StepSizes all = step_of(2, 64);
  all.add(step_of(3, 96));
  const std::vector<ReplicaGradients> replicas{
      {.totals = {.offered = 1200, .applied = 1190, .dropped = 8}, .waited_seconds = 1.2345},
      {.totals = {.offered = 3, .applied = 0, .dropped = 3}, .waited_seconds = 0}};
  EXPECT_EQ(table_of(replicas, all),
            "replica    offered   accepted    applied    dropped  waited ms\n"
            "      0       1200       1192       1190          8       1235\n"
            "      1          3          0          0          3          0\n"
            "2 steps, each of 2 to 3 (mean 2.5) gradients and 64 to 96 (mean 80) rows\n");
  EXPECT_NE(table_of({}, step_of(3, 96)).find("1 steps, each of 3 gradients and 96 rows"), std::string::npos);
  EXPECT_EQ(table_of({}, {}).find("steps"), std::string::npos) << "there were none";
}

}  // namespace
}  // namespace tandem::learner
