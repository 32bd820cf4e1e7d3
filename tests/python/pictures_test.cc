// Pictures that Python environments draw of themselves in their workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kDrawn = "gymnasium:drawn_env:Drawn-v0";

std::unique_ptr<EnvGroup> drawn(EnvOptionTexts options, int count, int workers) {
  options.emplace_back(kInterpreterOption, TEST_PYTHON);
  EnvRegistry known;
  for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
  known.set_options(kDrawn, options);
  return in_workers(known.spec(kDrawn), count, workers, python_isolation({}, kDrawn, options), nullptr);
}

// The first pixel: the number of the environment in its worker, its episodes, the steps of this one.
std::vector<int> picture(const EnvGroup& group, int env) {
  Canvas canvas;
  group.render(env, canvas);
  const auto& image = std::get<drawing::Image>(canvas.shapes().at(0));
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.width, 6);
  return {image.rgb.at(0), image.rgb.at(1), image.rgb.at(2)};
}

TEST(PythonPicturesTest, ShowEachMomentAndTheEndOfAnEpisode) {
  const auto group = drawn({{"render_mode", "rgb_array"}}, 3, 2);
  ASSERT_TRUE(group->can_render());
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2, 3}, buffers.arrays());
  EXPECT_THAT(picture(*group, 0), ElementsAre(0, 1, 0));
  EXPECT_THAT(picture(*group, 2), ElementsAre(0, 1, 0));  // of the other worker
  std::vector<std::vector<int>> ends;
  group->watch_ends([&](int env) {
    if (env != 1) ends.push_back(picture(*group, env));  // nobody has looked at environment 1
  });
  const std::vector<std::int64_t> actions(3);
  for (int step = 1; step <= 3; ++step) {
    EXPECT_THAT(ends, ElementsAre());
    group->step({.discrete = actions.data()}, buffers.arrays());
    EXPECT_THAT(picture(*group, 0), step < 3 ? ElementsAre(0, 1, step) : ElementsAre(0, 2, 0));
  }
  EXPECT_THAT(ends, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(0, 1, 3)));
}

TEST(PythonPicturesTest, ThatAreNoneAreErrors) {
  for (const auto& [kind, says] : {std::pair{"none", "render() gives NoneType; a picture is an array"},
                                   std::pair{"grey", "render() gives uint8[4, 6]; a picture is an array"},
                                   std::pair{"wide", "drew a picture of 1 x 5000 pixels"}}) {
    const auto group = drawn({{"render_mode", "rgb_array"}, {"picture", kind}}, 1, 1);
    EnvBuffers buffers(*group);
    group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
    EXPECT_THAT(message_of<EnvError>([&] { (void)picture(*group, 0); }), HasSubstr(says));
  }
}

TEST(PythonPicturesTest, AreNotDrawnUnlessAskedFor) {
  const auto group = drawn({}, 2, 2);
  EXPECT_FALSE(group->can_render());
  EXPECT_THAT(message_of<EnvError>([&] { (void)picture(*group, 0); }), HasSubstr("draw no pictures"));
}

}  // namespace
}  // namespace tandem::rl
