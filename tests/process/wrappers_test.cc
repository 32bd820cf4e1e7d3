// Runs with wrappers around their environments (env_wrappers): the same bits on any topology, in processes of their own
// too, and when the run goes on after SIGKILL.
#include <gtest/gtest.h>

#include <csignal>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

// All that keep something over steps, and one that ends episodes.
Recipe wrapped() {
  Recipe recipe = with_steps(cartpole(), 2048);
  for (const char* wrapper :
       {"sticky_actions=0.25", "frame_skip=2", "time_limit=40", "frame_stack=3", "reward_scale=0.5"})
    recipe.arguments.insert(recipe.arguments.end(), {"--env-wrapper", wrapper});
  return recipe;
}

TEST(WrappedRunTest, HasTheSameBitsOnAnyTopologyAndGoesOnWithThem) {
  const std::string state = uninterrupted_state(wrapped());
  const TemporaryFolder scratch;
  expect_success(train(wrapped(), scratch / "threads", "cpu:4"));
  EXPECT_EQ(state_of(scratch / "threads"), state);
  Command isolated = train(wrapped(), scratch / "ranks", "cpu:2", "");
  isolated.arguments.emplace_back("--isolate-envs");
  expect_success(as_ranks(2, isolated));
  EXPECT_EQ(state_of(scratch / "ranks"), state);
  const auto killed = scratch / "killed";
  ASSERT_EQ(run(train(wrapped(), killed, "cpu:2", "checkpoint.after_manifest:2:kill")).signal, SIGKILL);
  expect_success(resume(killed, "cpu:1"));
  EXPECT_EQ(summary_of(killed).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(killed), state);
}

}  // namespace
}  // namespace tandem::process_test
