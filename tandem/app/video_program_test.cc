// Videos of episodes, as the program makes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_concepts.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// An image that is its own observation; it asks for the end of the program at step 5 of an episode, if told so.
struct Screen {
  static constexpr std::int64_t kSide = 6;
  using Image = std::array<std::uint8_t, static_cast<std::size_t>(3 * kSide * kSide)>;
  static inline bool raises_signal = false;
  static rl::Spec spec() {
    return {.id = "Screen-v0",
            .observation = {{.type = rl::ElementType::kUInt8, .shape = {108}}},
            .action = rl::Discrete{2},
            .max_episode_steps = 20,
            .render_fps = 12};
  }
  Image reset(rl::NumpyGenerator&) { return image = {}; }
  rl::StepResult<Image> step(std::int64_t action) {
    image[static_cast<std::size_t>(steps++) % image.size()] = 255;
    if (raises_signal && steps == 5) std::raise(SIGINT);
    return {image, static_cast<double>(action)};
  }
  void render(rl::Canvas& canvas) const {
    ++drawn;
    canvas.image(image, kSide, kSide);
  }

  static inline int drawn = 0;
  Image image = {};
  std::int64_t steps = 0;
};

// The same, but nobody sees it.
struct Unseen {
  static rl::Spec spec() {
    return {.id = "Unseen-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}, .max_episode_steps = 5};
  }
  std::array<float, 1> reset(rl::NumpyGenerator&) { return {0}; }
  rl::StepResult<std::array<float, 1>> step(std::int64_t) { return {{0}, 0}; }
};

class VideoProgramTest : public ::testing::Test {
 protected:
  static Outcome run(const std::vector<std::string>& arguments) {
    rl::EnvRegistry environments = rl::EnvRegistry::native();
    environments.add<Screen>();
    environments.add<Unseen>();
    return run_captured(arguments, environments);
  }
  void train(const std::string& env) {
    const Outcome trained =
        run({"train", "--env", env, "--run-dir", at("run"), "--num-envs", "2", "--rollout-steps", "16", "--total-steps",
             "64", "--set", "policy.hidden=8", "--minibatches", "2", "--epochs", "1", "--algo", "ppo"});
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  std::string at(const std::string& name) { return folder / name; }

  TemporaryFolder folder;
};

TEST_F(VideoProgramTest, AVideoChangesNothingInWhatIsPlayed) {
  train("CartPole-v1");
  const std::vector<std::string> eval{"eval", at("run"), "--episodes", "5", "--acting", "sample", "--json"};
  std::vector<std::string> with_video = eval;
  with_video.insert(with_video.end(), {"--video", at("a.gif"), "--video-episodes", "2", "--video-steps", "4"});
  const JsonValue plain = read_json(run(eval).out);
  const Outcome outcome = run(with_video);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const JsonValue filmed = read_json(outcome.out);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(plain.at("returns").as_array()[i].as_double(), filmed.at("returns").as_array()[i].as_double());
  const JsonValue& video = filmed.at("video");
  EXPECT_EQ(video.at("episodes").as_int64(), 2);
  EXPECT_EQ(video.at("cut_short").as_int64(), 2);
  EXPECT_EQ(video.at("frames").as_int64(), 2 * 5);
  EXPECT_EQ(video.at("steps_per_second").as_double(), 50);
  EXPECT_EQ(static_cast<std::uint64_t>(video.at("bytes").as_int64()), std::filesystem::file_size(at("a.gif")));
}

TEST_F(VideoProgramTest, EnvironmentsOfSeveralAgentsAndImagesAreShownToo) {
  train("KuhnPoker-v0");
  const Outcome poker = run({"eval", at("run"), "--episodes", "3", "--video", at("frames/")});
  ASSERT_EQ(poker.code, 0) << poker.err;
  EXPECT_THAT(poker.out, HasSubstr("1 episode"));
  EXPECT_GE(std::distance(std::filesystem::directory_iterator(at("frames")), {}), 3);
  std::filesystem::remove_all(at("run"));
  train("Screen-v0");
  const Outcome screen = run({"eval", at("run"), "--episodes", "3", "--video", at("a.gif"), "--video-size", "120"});
  ASSERT_EQ(screen.code, 0) << screen.err;
  EXPECT_THAT(screen.out, HasSubstr("21 frames of 120 x 126, 12 steps a second"));
}

// Its episodes have 20 steps, and a GIF shows 50 frames a second.
TEST_F(VideoProgramTest, OnlyTheStepsThatAVideoShowsAreDrawn) {
  train("Screen-v0");
  Screen::drawn = 0;
  const Outcome outcome =
      run({"eval", at("run"), "--episodes", "1", "--video", at("a.gif"), "--video-fps", "150", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_json(outcome.out).at("video").at("frames").as_int64(), 8) << "0, 3, ... 18, and the last";
  EXPECT_EQ(Screen::drawn, 8);
}

TEST_F(VideoProgramTest, AnEnvironmentWithoutRenderIsRefusedWithWhatToAdd) {
  train("Unseen-v0");
  const Outcome outcome = run({"eval", at("run"), "--video", at("a.gif")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("Unseen-v0 draws no pictures"),
                                 HasSubstr("void render(tandem::rl::Canvas& canvas) const")));
  EXPECT_EQ(run({"eval", at("run"), "--episodes", "2"}).code, 0);
}

TEST_F(VideoProgramTest, AnInterruptedEvaluationLeavesNoVideo) {
  train("Screen-v0");
  Screen::raises_signal = true;
  const Outcome outcome = run({"eval", at("run"), "--episodes", "50", "--video", at("a.gif")});
  Screen::raises_signal = false;
  EXPECT_EQ(outcome.code, 130);
  EXPECT_THAT(outcome.err, HasSubstr("no video was written"));
  EXPECT_FALSE(std::filesystem::exists(at("a.gif")) || std::filesystem::exists(at("a.gif.part")));
}

}  // namespace
}  // namespace tandem::app
