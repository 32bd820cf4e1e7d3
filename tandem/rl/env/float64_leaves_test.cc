// Leaves of float64, as structs, simulators and agents write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <utility>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/simulator_group.h"
#include "tandem/rl/env/testing/agent_buffers.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kStart = 1.7e9, kTick = 0.01;  // of a clock that float32 cannot tell from one that stands

// Shows two clocks that go alike, of float64 and of float32; action 1 shows an infinity, and 2 a number of 1e39.
struct Clocks {
  using Shown = std::pair<std::array<double, 2>, double>;
  static Spec spec() {
    return {.id = "Clocks-v0",
            .observation = {{.name = "exact", .type = ElementType::kFloat64, .shape = {2}},
                            {.name = "narrow", .shape = {}}},
            .action = Discrete{3}};
  }
  Shown reset(std::uint64_t) { return show(0); }
  StepResult<Shown> step(std::int64_t action) {
    ++ticks;
    return {.observation = show(action == 1 ? INFINITY : action == 2 ? 1e39 : 0)};
  }
  [[nodiscard]] Shown show(double odd) const {
    const double now = kStart + kTick * ticks;
    return {{now, odd}, odd == 1e39 ? odd : now};
  }
  int ticks = 0;
};

void step(EnvGroup& group, EnvBuffers& buffers, std::int64_t action) {
  group.step({.discrete = &action}, buffers.arrays());
}

TEST(Float64LeavesTest, KeepWhatFloat32LosesAndTheSpecAloneDecides) {
  EnvGroupOf<Clocks> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  for (int ticks = 1; ticks <= 3; ++ticks) {
    step(group, buffers, 0);
    EXPECT_THAT(buffers.observation<double>(0), ElementsAre(kStart + kTick * ticks, 0));
    EXPECT_THAT(buffers.observation<float>(0, 1), ElementsAre(static_cast<float>(kStart)));
  }
  EXPECT_EQ(describe(group.spec().observation[0]), "exact float64[2]");
}

TEST(Float64LeavesTest, WhatIsNotFiniteIsNamedAndWhatIsBeyondFloat32IsOnlyWrongInALeafOfIt) {
  EnvGroupOf<Clocks> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  EXPECT_THAT(message_of<EnvError>([&] { step(group, buffers, 1); }),
              HasSubstr("element 1 of its observation leaf 'exact' is inf"));
  EXPECT_THAT(message_of<EnvError>([&] { step(group, buffers, 2); }),
              HasSubstr("element 0 of its observation leaf 'narrow' is 1e+39, which is beyond float32"));
  EXPECT_THAT(buffers.observation<double>(0), ElementsAre(::testing::_, 1e39));
}

struct FloatsForDoubles {
  static Spec spec() {
    return {.id = "Floats-v0", .observation = {{.type = ElementType::kFloat64, .shape = {}}}, .action = Discrete{2}};
  }
  float reset(std::uint64_t) { return 0; }
  StepResult<float> step(std::int64_t) { return {0.0F}; }
};

TEST(Float64LeavesTest, AStructOfFloatsHasNone) {
  EXPECT_THAT(message_of<ConfigError>([] { EnvGroupOf<FloatsForDoubles> group(1); }),
              HasSubstr("leaf 0 is 'obs float64[]' in its spec, and its observations hold float32"));
}

// A simulator whose action is added to its clocks.
class ClockRoom {
 public:
  static Spec spec() {
    return {.id = "ClockRoom-v0",
            .observation = {{.name = "exact", .type = ElementType::kFloat64, .shape = {1}}},
            .action = Box{{-INFINITY}, {INFINITY}}};
  }
  explicit ClockRoom(int count) : now_(static_cast<std::size_t>(count)) {}
  void reset(std::size_t env, NumpyGenerator&, const ObservationRow& first) {
    first.leaf<double>()[0] = now_[env] = kStart;
  }
  void step(std::span<const float> actions, const StepOfAll& out) {
    for (std::size_t env = 0; env < now_.size(); ++env) {
      now_[env] += kTick;
      out.observation.leaf<double>()[env] = actions[env] > 1 ? std::nan("") : now_[env];
    }
    if (actions[0] < -1) (void)out.observation.leaf<float>();
  }

 private:
  std::vector<double> now_;
};

TEST(Float64LeavesTest, SimulatorsWriteThemInPlace) {
  const auto group = simulator_group<ClockRoom>(2);
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  const auto act = [&](float first, float second) {
    const std::array actions{first, second};
    group->step({.box = actions.data()}, buffers.arrays());
  };
  act(0, 0);
  EXPECT_THAT(buffers.observation<double>(1), ElementsAre(kStart + kTick));
  EXPECT_THAT(message_of<EnvError>([&] { act(0, 2); }),
              ::testing::AllOf(HasSubstr("environment 1 of 2"), HasSubstr("observation leaf 'exact' is nan")));
  EXPECT_THAT(message_of<EnvError>([&] { act(-2, 0); }),
              HasSubstr("as float32 of 4 bytes; its spec says exact float64[1]"));
}

struct Watchers {
  static MultiAgentSpec spec() {
    return {.id = "Watchers-v0",
            .agents = {
                {.name = "a", .observation = {{.shape = {1}}}, .action = Discrete{2}},
                {.name = "b", .observation = {{.type = ElementType::kFloat64, .shape = {1}}}, .action = Discrete{2}}}};
  }
  void reset(NumpyGenerator&) {}
  void step(std::span<const AgentAction>, std::span<AgentOutcome>) {}
  std::array<double, 1> observe(std::size_t) const { return {kStart + kTick}; }
};

TEST(Float64LeavesTest, EachAgentsSpecDecides) {
  MultiAgentGroupOf<Watchers> group(1);
  testing::AgentBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays);
  EXPECT_EQ(*reinterpret_cast<const float*>(buffers.arrays[0].env.observation[0]), static_cast<float>(kStart));
  EXPECT_EQ(*reinterpret_cast<const double*>(buffers.arrays[1].env.observation[0]), kStart + kTick);
}

}  // namespace
}  // namespace tandem::rl
