// Videos as files: what is in them, when they show it, and what is left when they are not finished.
#include "tandem/app/video/film.h"

#include <gif_lib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tandem/app/video/video_file.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A disc that moves one to the right in each step, and stays where it is from step 3 on.
Shot shot(std::int64_t episode, std::int64_t step, bool is_end = false) {
  Shot its{.episode = episode, .step = step, .episode_return = 1, .is_end = is_end};
  its.picture.view(0, 0, 10, 5);
  its.picture.disc({1.0 + static_cast<double>(std::min<std::int64_t>(step, 3)), 2}, 0.5, {1, 0, 0});
  return its;
}

// Two episodes, played at the same time: of 3 steps and of 5.
Film film_of_two() {
  Film film;
  for (std::int64_t step = 0; step <= 5; ++step) {
    if (step <= 3) film.add(shot(1, step, step == 3));
    film.add(shot(2, step, step == 5));
  }
  return film;
}

// Where programs are looked for, while it lives. Tests have one thread.
class SearchPath {
 public:
  explicit SearchPath(const std::string& folders) : before_(now()) { set(folders); }
  ~SearchPath() { set(before_); }
  SearchPath(const SearchPath&) = delete;
  SearchPath& operator=(const SearchPath&) = delete;
  static std::string now() { return std::getenv("PATH"); }  // NOLINT(concurrency-mt-unsafe)

 private:
  static void set(const std::string& to) { ::setenv("PATH", to.c_str(), 1); }  // NOLINT(concurrency-mt-unsafe)
  const std::string before_;
};

class FilmTest : public ::testing::Test {
 protected:
  VideoFacts write(const Film& film, const std::string& name, double fps) {
    const VideoOptions options{.path = folder / name, .fps = fps, .size = 100};
    return write_video(film, options, 7, {}, [](std::int64_t, std::int64_t) {}).value();
  }
  [[nodiscard]] std::set<std::string> files(const std::string& below = "") const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / below)) names.insert(entry.path().filename());
    return names;
  }

  TemporaryFolder folder;
};

// A GIF as programs show it: whole frames of colours, and for how long each is seen, in hundredths of a second.
struct ShownGif {
  int width = 0, height = 0;
  std::vector<std::vector<std::array<int, 3>>> frames = {};
  std::vector<int> delays = {};
};

ShownGif read_gif(const std::filesystem::path& path) {
  int error = 0;
  GifFileType* gif = DGifOpenFileName(path.c_str(), &error);
  if (gif == nullptr || DGifSlurp(gif) == GIF_ERROR) throw std::runtime_error("not a GIF");
  ShownGif shown{.width = gif->SWidth, .height = gif->SHeight};
  std::vector<std::array<int, 3>> screen(static_cast<std::size_t>(shown.width) *
                                         static_cast<std::size_t>(shown.height));
  for (int i = 0; i < gif->ImageCount; ++i) {
    GraphicsControlBlock control{};
    DGifSavedExtensionToGCB(gif, i, &control);
    const SavedImage& image = gif->SavedImages[i];
    const GifImageDesc& its = image.ImageDesc;
    for (int at = 0; at < its.Width * its.Height; ++at) {
      const int index = image.RasterBits[at];
      if (index == control.TransparentColor) continue;
      const GifColorType color = gif->SColorMap->Colors[index];
      const int row = its.Top + at / its.Width, column = its.Left + at % its.Width;
      screen[static_cast<std::size_t>(row) * static_cast<std::size_t>(shown.width) + static_cast<std::size_t>(column)] =
          {color.Red, color.Green, color.Blue};
    }
    shown.frames.push_back(screen);
    shown.delays.push_back(control.DelayTime);
  }
  DGifCloseFile(gif, &error);
  return shown;
}

TEST_F(FilmTest, TheStripShowsEachAgentsReturnInAGameInWhichOneWinsWhatTheOtherLoses) {
  Film game;
  game.name_agents({"player_0", "player_1"});
  game.add({.episode = 1, .step = 0, .agent_returns = {0, 0}});
  game.add({.episode = 1, .step = 1, .agent_returns = {-2, 2}});
  EXPECT_EQ(game.returns_text(game.episodes()[0][0]), "player_0 0, player_1 0");
  EXPECT_EQ(game.returns_text(game.episodes()[0][1]), "player_0 -2.00, player_1 2.00");
  game.add({.episode = 1, .step = 2, .episode_return = 1, .agent_returns = {-1, 2}});
  EXPECT_EQ(game.returns_text(game.episodes()[0][1]), "return 0");
  Film alone;
  alone.add({.episode = 1, .step = 1});
  EXPECT_EQ(alone.returns_text(alone.episodes()[0][0]), "return 0");
}

TEST_F(FilmTest, AGifShowsEveryMomentOfEachEpisodeAndHoldsTheLast) {
  const Film film = film_of_two();
  const VideoFacts facts = write(film, "a.gif", 20);
  EXPECT_EQ(facts.episodes, 2);
  EXPECT_EQ(facts.frames, 4 + 6);
  EXPECT_EQ(facts.bytes, std::filesystem::file_size(folder / "a.gif"));
  const ShownGif gif = read_gif(folder / "a.gif");
  EXPECT_EQ(gif.width, facts.width);
  EXPECT_EQ(gif.height, facts.height);
  EXPECT_THAT(gif.delays, ElementsAre(5, 5, 5, 100, 5, 5, 5, 5, 5, 100));
  Painter painter(shot(1, 0).picture, 100);
  const VideoFrame& third = painter.paint(shot(1, 2).picture, {.left = "episode 1, step 2", .right = "return 1.00"});
  int wrong = 0;
  for (std::size_t i = 0; i < third.rgb.size(); ++i)
    wrong += std::abs(int{third.rgb[i]} - gif.frames.at(2).at(i / 3).at(i % 3)) > 6 ? 1 : 0;
  EXPECT_EQ(wrong, 0) << "of " << third.rgb.size();
}

TEST_F(FilmTest, AGifKeepsThePaceOfATaskThatIsFasterThanGifs) {
  const VideoFacts facts = write(film_of_two(), "a.gif", 150);
  EXPECT_EQ(facts.every, 3);
  EXPECT_THAT(read_gif(folder / "a.gif").delays, ElementsAre(2, 100, 2, 2, 100)) << "steps 0 and 3; 0, 3 and 5";
}

TEST_F(FilmTest, HundredthsOfASecondDoNotAddUpToAnotherPace) {
  write(film_of_two(), "a.gif", 30);
  EXPECT_THAT(read_gif(folder / "a.gif").delays, ElementsAre(3, 4, 3, 100, 3, 4, 3, 3, 4, 100));
}

TEST_F(FilmTest, AFolderHasAPictureForEachMoment) {
  write(film_of_two(), "frames/", 10);
  EXPECT_THAT(files(), ElementsAre("frames"));
  EXPECT_EQ(files("frames").size(), 10u);
  EXPECT_TRUE(files("frames").contains("episode-002-step-00005.png"));
  EXPECT_EQ(read_file(folder / "frames/episode-001-step-00000.png").substr(1, 3), "PNG");
}

TEST_F(FilmTest, AnMp4IsMadeByFfmpegWhereThereIsOne) {
  if (find_ffmpeg().empty()) GTEST_SKIP() << "ffmpeg is not installed";
  const VideoFacts facts = write(film_of_two(), "a.mp4", 25);
  EXPECT_EQ(facts.frames, 10);
  const std::string bytes = read_file(folder / "a.mp4");
  EXPECT_EQ(bytes.size(), facts.bytes);
  EXPECT_THAT(bytes.substr(0, 16), HasSubstr("ftyp"));
  EXPECT_THAT(files(), ElementsAre("a.mp4"));
}

TEST_F(FilmTest, FfmpegThatFailsIsQuotedAndLeavesNothing) {
  // Once before it has read a frame, and once after all of them.
  for (const char* reads : {"", "cat > /dev/null\n"}) {
    write_file(folder / "ffmpeg", concat("#!/bin/sh\n", reads, "echo no such codec >&2\nexit 1\n"));
    std::filesystem::permissions(folder / "ffmpeg", std::filesystem::perms::owner_all);
    const SearchPath path(concat(folder.path().string(), ":", SearchPath::now()));
    try {
      write(film_of_two(), "a.mp4", 25);
      ADD_FAILURE() << reads;
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no such codec")) << reads;
    }
    EXPECT_THAT(files(), ElementsAre("ffmpeg"));
  }
}

TEST_F(FilmTest, AStoppedVideoLeavesNothing) {
  const Film film = film_of_two();
  for (const char* name : {"a.gif", "a.mp4", "frames/"}) {
    if (std::string(name) == "a.mp4" && find_ffmpeg().empty()) continue;
    std::stop_source stop;
    const VideoOptions options{.path = folder / name, .size = 100};
    const auto facts = write_video(film, options, 0, stop.get_token(), [&](std::int64_t done, std::int64_t all) {
      if (done == all - 2) stop.request_stop();
    });
    EXPECT_FALSE(facts.has_value()) << name;
    EXPECT_TRUE(files().empty()) << name;
  }
}

TEST_F(FilmTest, PathsThatCannotBeWrittenAreRefusedBeforehand) {
  const auto fault = [&](const std::string& name) {
    try {
      check_video_path(folder / name);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  write_file(folder / "file", "x");
  std::filesystem::create_directory(folder / "full");
  std::filesystem::create_directory(folder / "empty");
  write_file(folder / "full/x", "x");
  EXPECT_THAT(fault("none/a.gif"), HasSubstr("there is no folder"));
  EXPECT_THAT(fault("full/"), HasSubstr("it is there already"));
  EXPECT_THAT(fault("file/"), HasSubstr("it is there already"));
  EXPECT_EQ(fault("empty/"), "nothing");
  EXPECT_EQ(fault("a.gif"), "nothing");
  {
    const SearchPath path(folder.path().string());
    EXPECT_THAT(fault("a.mp4"), HasSubstr("apt-get install ffmpeg"));
  }
  EXPECT_FALSE(is_video_path("a.avi"));
  EXPECT_FALSE(is_video_path(""));
  EXPECT_TRUE(is_video_path("./frames/"));
}

TEST_F(FilmTest, ThePicturesOfAFilmHaveABoundOfBytes) {
  Film film;
  const std::vector<std::uint8_t> pixels(std::size_t{3} * 4000 * 4000);
  try {
    for (std::int64_t step = 0; step < 100; ++step) {
      Shot its{.episode = 1, .step = step};
      its.picture.image(pixels, 4000, 4000);
      film.add(std::move(its));
    }
    ADD_FAILURE();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than 1024 MiB before step 22 of episode 1"));
  }
}

TEST_F(FilmTest, APictureThatCannotBeDrawnIsNamed) {
  Film film;
  film.add(shot(1, 0));
  Shot bad = shot(1, 1);
  bad.picture.text({1, 1}, "\xff");
  film.add(std::move(bad));
  try {
    write(film, "a.gif", 10);
    ADD_FAILURE();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 1 of episode 1: "));
  }
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tandem::app
