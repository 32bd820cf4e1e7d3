#include "tandem/sync/variables/moving_average.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "tandem/base/error.h"

namespace tandem::sync {
namespace {

struct Three : torch::nn::Module {
  Three() {
    one = register_parameter("one", torch::full({2, 2}, 1.0));
    one_and_more = register_parameter("one_and_more", torch::full({3}, 2.0));
    exact = register_parameter("exact", torch::full({1}, 4.0, torch::kDouble));
  }
  torch::Tensor one, one_and_more, exact;
};

TEST(MovingAverageTest, BeginsWithTheValuesAndFollowsThemByItsDecay) {
  const auto net = std::make_shared<Three>();
  const model::FlatParameters parameters(net, {});
  MovingAverage average(parameters, 0.75, {"one", "exact"});
  const model::NamedTensors& averages = average.averages();
  ASSERT_EQ(averages.size(), 2U) << "a name that only begins alike is another parameter";
  EXPECT_EQ(averages[0].first, "averages.one");
  EXPECT_TRUE(torch::equal(averages[0].second, torch::full({2, 2}, 1.0)));
  {
    const torch::NoGradGuard no_grad;
    net->one.fill_(5);
    net->exact.fill_(0);
  }
  average.update(parameters.buffers());
  EXPECT_TRUE(torch::equal(averages[0].second, torch::full({2, 2}, 2.0)));
  EXPECT_TRUE(torch::equal(averages[1].second, torch::full({1}, 3.0, torch::kDouble)));
}

}  // namespace
}  // namespace tandem::sync
