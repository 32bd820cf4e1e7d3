// Videos of MuJoCo's tasks: they change nothing in what is played; and what a program says that cannot draw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class MujocoPicturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    expect_success(train({"Pendulum",
                          {"--env", "InvertedPendulum-v5", "--seed", "3", "--num-envs", "2", "--rollout-steps", "64",
                           "--set", "policy.hidden=8"},
                          256,
                          128},
                         scratch_ / "run", "cpu:1"));
  }
  Ended eval(std::vector<std::string> more, std::vector<std::string> variables = {}) const {
    std::vector<std::string> arguments{"eval", (scratch_ / "run").string(), "--episodes", "2", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Command command = tandem(std::move(arguments));
    command.environment = std::move(variables);
    return run(command);
  }

  const TemporaryFolder scratch_;
};

TEST_F(MujocoPicturesTest, AVideoChangesNothingInWhatIsPlayed) {
  const std::filesystem::path frames = scratch_ / "frames";
  const Ended filmed = eval({"--video", frames.string() + "/", "--video-episodes", "2", "--video-steps", "3",
                             "--video-size", "96", "--env-option", "width=96", "--env-option", "height=64"});
  if (filmed.err.find("there is no OpenGL to draw with") != std::string::npos) GTEST_SKIP() << filmed.err;
  ASSERT_EQ(filmed.exit_code, 0) << filmed.err;
  const JsonValue seen = read_json(filmed.out);
  EXPECT_EQ(seen.at("returns"), read_json(eval({}).out).at("returns"));
  EXPECT_EQ(seen.at("video").at("frames").as_int64(), 2 * 4);
  EXPECT_EQ(seen.at("video").at("width").as_int64(), 96);
  std::vector<std::string> pictures;
  for (const auto& file : std::filesystem::directory_iterator(frames)) pictures.push_back(bytes_of(file));
  ASSERT_EQ(pictures.size(), 8U);
  std::ranges::sort(pictures);
  EXPECT_EQ(std::ranges::adjacent_find(pictures), pictures.end()) << "two moments look the same";
}

// EGL without a driver is what a system without one has.
TEST_F(MujocoPicturesTest, WhereNothingDrawsOnlyPicturesAreRefused) {
  const std::vector<std::string> video{"--video", (scratch_ / "a.gif").string()};
  const Ended without = eval(video, {"MUJOCO_GL=egl", "__EGL_VENDOR_LIBRARY_DIRS=" + scratch_.path().string()});
  EXPECT_EQ(without.exit_code, 2) << without.err;
  EXPECT_THAT(without.err, AllOf(HasSubstr("there is no OpenGL to draw with (egl: libEGL.so.1"),
                                 HasSubstr("apt-get install libegl1 libgl1-mesa-dri")));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "a.gif"));
  const Ended window = eval(video, {"MUJOCO_GL=glfw"});
  EXPECT_EQ(window.exit_code, 2) << window.err;
  EXPECT_THAT(window.err, HasSubstr("MUJOCO_GL=glfw: pictures are drawn without a screen, by egl or osmesa"));
  EXPECT_EQ(eval({}, {"MUJOCO_GL=glfw"}).exit_code, 0);
}

}  // namespace
}  // namespace tandem::process_test
