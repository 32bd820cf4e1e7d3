#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/model/optimizer_state.h"

namespace tandem::model {
namespace {

TEST(UpdateJournalTest, UndoBringsBackWhatWasKeptAndNothingElse) {
  at::Tensor values = at::arange(10, at::kFloat), moments = at::arange(10, at::kFloat).neg();
  UpdateJournal journal({values, moments});
  journal.keep({2, 4});
  journal.keep({7, 10});
  values.fill_(50);
  moments.fill_(60);
  journal.undo();
  EXPECT_TRUE(values.equal(at::tensor({50., 50., 2., 3., 50., 50., 50., 7., 8., 9.}, at::kFloat)));
  EXPECT_TRUE(moments.equal(at::tensor({60., 60., -2., -3., 60., 60., 60., -7., -8., -9.}, at::kFloat)));
}

TEST(UpdateJournalTest, WhatWasForgottenStands) {
  at::Tensor counts = at::zeros({3}, at::kLong);
  UpdateJournal journal({counts});
  journal.keep({0, 2});
  counts.fill_(1);
  journal.forget();
  journal.keep({1, 2});
  counts.fill_(2);
  journal.undo();
  journal.undo();
  EXPECT_TRUE(counts.equal(at::tensor({2, 1, 2}, at::kLong)));
}

TEST(UpdateJournalTest, VectorsOfUnequalLengthAreRefused) {
  EXPECT_THROW(UpdateJournal({at::zeros({3}), at::zeros({4})}), InvariantError);
}

}  // namespace
}  // namespace tandem::model
