// What groups of environments draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/check/play.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/env/testing/walk.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Draws the number of its step; ends after three.
struct Counter {
  static Spec spec() { return {.id = "Counter-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}}; }
  std::array<float, 1> reset(NumpyGenerator&) {
    steps = 0;
    return {0};
  }
  StepResult<std::array<float, 1>> step(std::int64_t action) {
    ++steps;
    return {.observation = {0}, .terminated = steps == 3 || action == 1};
  }
  void render(Canvas& canvas) const {
    canvas.view(0, 0, 1, 1);
    if (steps == 2) canvas.disc({0, 0}, -1, Canvas::kInk);
    canvas.text({0.5, 0.5}, concat(steps));
  }
  std::int64_t steps = 0;
};

std::string text_of(const EnvGroup& group, int env) {
  Canvas canvas;
  group.render(env, canvas);
  return std::get<drawing::Text>(canvas.shapes().at(0)).text;
}

TEST(RenderTest, TheLastMomentIsSeenBeforeTheNextEpisodeBegins) {
  EnvGroupOf<Counter> group(2);
  const EnvBuffers buffers(group);
  std::vector<std::string> ends;
  group.watch_ends([&](int env) { ends.push_back(concat(env, ":", text_of(group, env))); });
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  EXPECT_EQ(text_of(group, 0), "0");
  testing::step(group, buffers, {0, 1});
  EXPECT_THAT(ends, ElementsAre("1:1"));
  EXPECT_EQ(text_of(group, 0), "1");
  EXPECT_EQ(text_of(group, 1), "0");
  group.watch_ends({});
  testing::step(group, buffers, {1, 1});
  EXPECT_EQ(ends.size(), 1u);
}

TEST(RenderTest, AFaultInRenderNamesTheEnvironment) {
  EnvGroupOf<Counter> group(2);
  const EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  for (int i = 0; i < 2; ++i) testing::step(group, buffers, {0, 0});
  try {
    (void)text_of(group, 1);
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Counter-v0: environment 1 of 2 in render(): it draws with a radius = -1"));
  }
}

TEST(RenderTest, AStructWithoutRenderSaysSo) {
  const EnvGroupOf<testing::Walk> group(1);
  Canvas canvas;
  EXPECT_FALSE(group.can_render());
  EXPECT_THROW(group.render(0, canvas), EnvError);
}

// All of Tandem's own environments, of one agent and of several; MuJoCo's tasks are another simulator's.
std::vector<std::unique_ptr<MultiAgentGroup>> native_groups(int count) {
  const EnvRegistry registry = EnvRegistry::native();
  std::vector<std::unique_ptr<MultiAgentGroup>> groups;
  for (const EnvEntry& entry : registry.entries()) {
    if (entry.origin == "tandem") groups.push_back(std::make_unique<OneAgentGroup>(entry.make(count)));
  }
  for (const MultiAgentEntry& entry : registry.multi_agent_entries()) groups.push_back(entry.make(count));
  return groups;
}

TEST(RenderTest, EveryNativeEnvironmentDrawsEachMomentAndSaysHowFastItIs) {
  for (std::unique_ptr<MultiAgentGroup>& made : native_groups(3)) {
    const std::string id = made->spec().id;
    EXPECT_GT(made->spec().render_fps, 0) << id;
    ASSERT_TRUE(made->can_render()) << id;
    MultiAgentGroup& group = *made;
    int ends = 0;
    group.watch_ends([&](int env) {
      ++ends;
      Canvas canvas;
      group.render(env, canvas);
      EXPECT_FALSE(canvas.shapes().empty()) << id;
    });
    Play play(std::move(made), {});
    play.reset(std::vector<std::uint64_t>{1, 2, 3});
    for (int i = 0; i < 1200; ++i) {
      play.step();
      Canvas canvas;
      group.render(i % 3, canvas);
      EXPECT_FALSE(canvas.shapes().empty()) << id;
      EXPECT_LT(canvas.bytes(), 20'000u) << id << ": videos keep them";
    }
    EXPECT_GT(ends, 0) << id;
  }
}

TEST(RenderTest, DrawingChangesNothing) {
  const auto play_of = [](std::unique_ptr<MultiAgentGroup> made, bool is_drawn) {
    MultiAgentGroup& group = *made;
    std::uint64_t digest = 0;
    if (is_drawn) {
      group.watch_ends([&](int env) {
        Canvas canvas;
        group.render(env, canvas);
      });
    }
    Play play(std::move(made), {});
    play.reset(std::vector<std::uint64_t>{1, 2});
    for (int i = 0; i < 600; ++i) {
      play.step();
      Canvas canvas;
      if (is_drawn) group.render(1, canvas);
      for (const std::size_t env : {0U, 1U}) digest = digest * 31 + play.digest(env);
    }
    return digest;
  };
  auto drawn = native_groups(2), plain = native_groups(2);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::string id = drawn[i]->spec().id;
    EXPECT_EQ(play_of(std::move(drawn[i]), true), play_of(std::move(plain[i]), false)) << id;
  }
}

}  // namespace
}  // namespace tandem::rl
