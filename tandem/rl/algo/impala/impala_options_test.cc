// What ImpalaRun refuses of its options before anything is built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/testing/small_impala.h"

namespace tandem::rl {
namespace {

using rl::testing::small_impala;
using ::testing::HasSubstr;

ImpalaSetup eight_environments() {
  ImpalaSetup setup = small_impala({.shards = 1});
  setup.impala.num_envs = 8;
  return setup;
}

TEST(ImpalaRunOptionsTest, AllFaultsOfTheOptionsAreReportedAtOnce) {
  ImpalaSetup setup = eight_environments();
  setup.impala.workers = 3;
  setup.impala.loaders = 5;
  setup.total_steps = 0;
  setup.impala.sequence_length = 0;
  setup.impala.max_policy_lag = -1;
  setup.appo = AppoOptions{.clip_range = 0, .kl_coef = -1, .target_update_steps = 0};
  try {
    const ImpalaRun run(std::move(setup));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 8u);
    EXPECT_THAT(error.what(), HasSubstr("num_envs = 8: does not divide among 3 rollout workers; 6 or 9 would"));
    EXPECT_THAT(error.what(), HasSubstr("loaders = 5: is more than the 2 buffers"));
  }
}

std::vector<std::string> faults_with(const std::function<void(ImpalaSetup&)>& change) {
  ImpalaSetup setup = eight_environments();
  change(setup);
  try {
    const ImpalaRun run(std::move(setup));
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

TEST(ImpalaRunOptionsTest, CountsThatOthersAreDividedByAreNamedFirst) {
  using ::testing::ElementsAre;
  EXPECT_THAT(faults_with([](ImpalaSetup& its) { its.impala.workers = its.impala.splits = its.impala.queue = 0; }),
              ElementsAre("workers is 0; it must be at least 1", "splits is 0; it must be at least 1",
                          "queue is 0; it must be at least 1"));
  EXPECT_THAT(faults_with([](ImpalaSetup& its) { its.impala.rollout_steps = 0; }),
              ElementsAre("rollout_steps is 0; it must be at least 1"));
}

TEST(ImpalaRunOptionsTest, NumbersThatCannotTeachAreRefused) {
  const auto one = [](auto member, auto value) {
    return faults_with([&](ImpalaSetup& its) { its.impala.*member = value; });
  };
  for (const auto& faults :
       {one(&ImpalaOptions::gamma, 1.5), one(&ImpalaOptions::learning_rate, -1.0), one(&ImpalaOptions::rho_clip, 0.0),
        one(&ImpalaOptions::entropy_coef, std::nan("")), one(&ImpalaOptions::value_coef, -0.5),
        one(&ImpalaOptions::max_grad_norm, -1.0), one(&ImpalaOptions::stall_timeout, std::int64_t{0})})
    EXPECT_FALSE(faults.empty());
}

}  // namespace
}  // namespace tandem::rl
