#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/model/state_hash.h"

namespace tandem::model {
namespace {

TEST(NamedCopyTest, ValuesGoToTheTensorOfTheSameName) {
  const torch::Tensor a = torch::zeros({2}), b = torch::zeros({3}, torch::kDouble);
  copy_named({{"b", torch::full({3}, 2.0, torch::kDouble)}, {"a", torch::full({2}, 1.0F)}}, {{"a", a}, {"b", b}});
  EXPECT_TRUE(torch::equal(a, torch::full({2}, 1.0F)));
  EXPECT_TRUE(torch::equal(b, torch::full({3}, 2.0, torch::kDouble)));
}

TEST(NamedCopyTest, AllDifferencesAreListedAndNothingIsCopied) {
  const torch::Tensor a = torch::zeros({2}), b = torch::zeros({3}), c = torch::zeros({1});
  try {
    copy_named({{"a", torch::ones({2})}, {"b", torch::ones({4})}, {"d", torch::ones({1})}},
               {{"a", a}, {"b", b}, {"c", c}});
    FAIL() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("'b' is Float [4]"),
                                 ::testing::HasSubstr("'c' (Float [1]) is missing"), ::testing::HasSubstr("'d'")));
  }
  EXPECT_TRUE(torch::equal(a, torch::zeros({2})));
}

}  // namespace
}  // namespace tandem::model
