// What wrappers around environments allocate in a step: nothing.
#include <gtest/gtest.h>

#include <memory>

#include "allocation_count.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::tandem::testing::AllocationCount;

struct WrappedTask {
  std::string env;
  std::vector<std::string> wrappers;
};

TEST(WrapperAllocationsTest, AStepAllocatesNothing) {
  EnvRegistry environments = EnvRegistry::native();
  environments.add<testing::Pictures>();
  for (const auto& [env, wrappers] : std::vector<WrappedTask>{
           {"CartPole-v1", {"sticky_actions=0.25", "frame_skip=3:max", "time_limit=9", "frame_stack=4", "flatten"}},
           {"Pendulum-v1", {"rescale_action", "rescale_observation", "reward_scale=0.1", "sticky_actions=0.1"}},
           {"MaskedCartPole-v1", {"time_limit=5", "reward_clip=0.5"}},
           {"Pictures-v0",
            {"channels_first", "channels_last", "resize=5x3", "grey", "frame_stack=4", "rescale_observation@pose",
             "time_limit=4", "reward_clip=sign"}}}) {
    EnvRegistry its = environments;
    its.set_wrappers(env, wrappers);
    const auto group = its.make(env, 3);
    EnvBuffers buffers(*group);
    const std::vector<std::uint64_t> seeds{1, 2, 3};
    const auto elements = static_cast<std::size_t>(action_elements(group->spec().action)) * 3;
    const std::vector<std::int64_t> discrete(elements, 1);
    const std::vector<float> box(elements, 0.5F);
    const bool is_box = std::holds_alternative<Box>(group->spec().action);
    const auto step = [&] {
      group->step(is_box ? EnvActions{.box = box.data()} : EnvActions{.discrete = discrete.data()}, buffers.arrays());
    };
    group->reset(seeds, buffers.arrays());
    for (int t = 0; t < 20; ++t) step();
    AllocationCount count;
    for (int t = 0; t < 300; ++t) step();  // with many ends of episodes
    count.stop();
    EXPECT_EQ(count.ours() + count.others(), 0) << env << "\n" << count.where();
  }
}

}  // namespace
}  // namespace tandem::rl
