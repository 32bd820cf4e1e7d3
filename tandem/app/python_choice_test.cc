// What a run tells the workers of its Python environment beside the environment's own options.
#include "tandem/app/train/python_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TrainOptions run_of(const std::string& env) {
  TrainOptions options;
  options.env = env;
  options.env_options = {"gravity=5"};
  options.python = "/bin/true";
  options.env_deadline_seconds = 7.5;
  options.env_memory_mb = 300;
  return options;
}

TEST(PythonChoiceTest, ARunTellsTheLimitsOfItsWorkers) {
  EXPECT_THAT(env_option_texts(run_of("gymnasium:CartPole-v1")),
              ElementsAre(Pair("gravity", "5"), Pair(rl::kInterpreterOption, "/bin/true"),
                          Pair(rl::kDeadlineOption, "7.5"), Pair(rl::kMemoryOption, "300")));
  EXPECT_THAT(env_option_texts(run_of("CartPole-v1")), ElementsAre(Pair("gravity", "5")));
}

TEST(PythonChoiceTest, WhatAnotherOptionSetsIsRefused) {
  TrainOptions options = run_of("gymnasium:CartPole-v1");
  options.env_options = {"python.memory_mb=3"};
  EXPECT_THAT(message_of<ConfigError>([&] { (void)env_option_texts(options); }),
              HasSubstr("python.memory_mb is set by env_memory_mb"));
}

}  // namespace
}  // namespace tandem::app
