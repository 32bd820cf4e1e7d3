// Leaves that are stacks of frames: only the newest frame is stored, and what is handed out is the whole stack.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

Spec picture_spec(std::int64_t frames) {
  return {.id = "Pictures-v0",
          .observation = {{.name = "picture", .type = ElementType::kUInt8, .shape = {frames, 3, 2}},
                          {.name = "plain", .type = ElementType::kFloat32, .shape = {2}}},
          .action = Discrete{2}};
}

TEST(FrameStacksTest, StacksAreTheSameAlsoAtBeginsEndsAndAcrossTheRingsEdge) {
  for (const StackPadding padding : {StackPadding::kFirst, StackPadding::kZero}) {
    for (const int frames : {2, 4, 7}) {
      const ReplayOptions options{.rows = 120,
                                  .n_step = 3,
                                  .leaves = {{.frames = frames, .padding = padding}, {}},
                                  .kept_ends = KeptEnds::kAll,
                                  .ends = 120};
      Past past(picture_spec(frames), 3, 3, {}, {{.frames = frames, .padding = padding}, {}});
      ReplayPart part(past.spec(), 3, options, 2);
      past.begin(part);
      for (int round = 0; round < 25; ++round) {
        past.steps(part, 9);
        if (round % 10 == 9) past.begin(part);
        expect_all_as_in(past, options, Draw(part, past.spec(), 100));
      }
      const Draw draw(part, past.spec(), 2000);
      EXPECT_EQ(*std::min_element(draw.row.begin(), draw.row.end()), (past.now() - 40) * 3)
          << "the oldest rows have whole stacks, too";
    }
  }
}

TEST(FrameStacksTest, TheRealWrappersStacksComeBackByteByByte) {
  for (const StackPadding padding : {StackPadding::kFirst, StackPadding::kZero}) {
    const auto stacked = frame_stack(4, padding, {}).around(EnvRegistry::native().make("CartPole-v1", 2), 0);
    EnvBuffers buffers(*stacked);
    ReplayPart part(stacked->spec(), 2, {.rows = 100, .leaves = {{.frames = 4, .padding = padding}}}, 1);
    const std::size_t bytes = stacked->spec().observation[0].bytes();
    std::vector<Past::Bytes> given;  // by row
    const auto keep = [&] {
      for (std::size_t e = 0; e < 2; ++e) given.push_back(Draw::cut(buffers.arrays().observation[0], e, bytes));
    };
    const std::vector<std::uint64_t> seeds{1, 2};
    stacked->reset(seeds, buffers.arrays());
    part.begin(buffers.arrays());
    keep();
    Philox random(1);
    for (int step = 0; step < 130; ++step) {
      const std::vector<std::int64_t> actions{static_cast<std::int64_t>(random.below(2)),
                                              static_cast<std::int64_t>(random.below(2))};
      stacked->step({.discrete = actions.data()}, buffers.arrays());
      part.append({.discrete = actions.data()}, buffers.arrays());
      keep();
    }
    const Draw draw(part, stacked->spec(), 400);
    for (std::size_t i = 0; i < 400; ++i)
      ASSERT_EQ(draw.observation_of(i, 0), given[static_cast<std::size_t>(draw.row[i])]) << draw.row[i];
  }
}

TEST(FrameStacksTest, OnlyTheNewestFrameCostsMemory) {
  const ReplayOptions whole{.rows = 10'000}, shared{.rows = 10'000, .leaves = {{.frames = 4}}};
  const auto all = bytes_of_part(atari_spec(), 1, whole).whole, less = bytes_of_part(atari_spec(), 1, shared).whole;
  EXPECT_LT(static_cast<double>(less), 0.27 * static_cast<double>(all));
  EXPECT_LT(static_cast<double>(less), 1.1 * 10'000 * (84 * 84 + 17));
}

TEST(FrameStacksTest, AWrongPaddingIsAnErrorAtTheFirstObservation) {
  Past past(picture_spec(4), 2, 3, {}, {{.frames = 4, .padding = StackPadding::kZero}, {}});
  ReplayPart part(past.spec(), 2, {.rows = 40, .leaves = {{.frames = 4, .padding = StackPadding::kFirst}, {}}}, 2);
  const std::string message = message_of<ConfigError>([&] { past.begin(part); });
  EXPECT_NE(message.find("leaf picture is not a stack of 4 frames"), std::string::npos) << message;
}

TEST(FrameStacksTest, ALeafThatIsNoStackIsAnErrorAndChangesNothing) {
  Past past(picture_spec(4), 2, 3, {.terminated = 0, .truncated = 0, .both = 0}, {{.frames = 4}, {}});
  const ReplayOptions options{.rows = 40, .leaves = {{.frames = 4}, {}}};
  ReplayPart part(past.spec(), 2, options, 2);
  past.begin(part);
  past.steps(part, 5);
  past.make_step();
  std::byte& older = past.arrays().observation[0][24 + 7];  // of environment 1, frame 1
  older ^= std::byte{1};
  const std::string message = message_of<ConfigError>([&] { part.append(past.actions(), past.arrays()); });
  EXPECT_NE(message.find("frame 1 of environment 1 after step 5"), std::string::npos) << message;
  older ^= std::byte{1};
  part.append(past.actions(), past.arrays());
  expect_all_as_in(past, options, Draw(part, past.spec(), 40));
}

TEST(FrameStacksTest, TheLastObservationOfAnEpisodeAndTheFirstOfTheNextAreComparedToo) {
  Past past(picture_spec(4), 1, 3, {.terminated = 0, .truncated = 100, .both = 0}, {{.frames = 4}, {}});
  ReplayPart part(past.spec(), 1, {.rows = 40, .leaves = {{.frames = 4}, {}}}, 2);
  past.begin(part);
  past.make_step();
  const auto append = [&] { part.append(past.actions(), past.arrays()); };
  past.arrays().final_observation[0][2] ^= std::byte{1};
  EXPECT_NE(message_of<ConfigError>(append).find("after step 0 is not frame 1 before it"), std::string::npos);
  past.arrays().final_observation[0][2] ^= std::byte{1};
  past.arrays().observation[0][2] ^= std::byte{1};
  EXPECT_NE(message_of<ConfigError>(append).find("of the first observation of environment 0"), std::string::npos);
  past.arrays().observation[0][2] ^= std::byte{1};
  EXPECT_NO_THROW(append());
}

// What an environment that failed showed last is its last observation (restarting_envs.h).
TEST(FrameStacksTest, TheLastObservationOfAnEpisodeThatWasCutShortMayBeThePresentOneAgain) {
  const PastEnds cut{.terminated = 0, .truncated = 100, .both = 0}, over{.terminated = 100, .truncated = 0, .both = 0};
  for (const PastEnds& ends : {cut, over}) {
    Past past(picture_spec(3), 1, 3, ends, {{.frames = 3, .padding = StackPadding::kZero}, {}});
    const std::vector<LeafStorage> leaves{{.frames = 3, .padding = StackPadding::kZero}, {}};
    ReplayPart part(past.spec(), 1, {.rows = 40, .leaves = leaves, .kept_ends = KeptEnds::kAll}, 2);
    past.begin(part);
    past.steps(part, 1);
    const Past::Bytes present = Draw::cut(past.arrays().observation[0], 0, 18);
    past.make_step();
    std::ranges::copy(present, past.arrays().final_observation[0]);
    const auto append = [&] { part.append(past.actions(), past.arrays()); };
    if (ends.terminated > 0) {
      EXPECT_NE(message_of<ConfigError>(append).find("is not frame 2 before it"), std::string::npos);
      continue;
    }
    append();
    Past::Bytes wanted(present.begin() + 6, present.end());
    wanted.insert(wanted.end(), present.end() - 6, present.end());
    const Draw draw(part, past.spec(), 40);
    const auto found = std::ranges::find(draw.row, 1);
    ASSERT_NE(found, draw.row.end());
    EXPECT_EQ(draw.next_of(static_cast<std::size_t>(found - draw.row.begin()), 0), wanted);
  }
}

}  // namespace
}  // namespace tandem::rl
