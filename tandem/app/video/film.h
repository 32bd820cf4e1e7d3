// app/video/film.h: the recorded moments of some episodes, and the video that is made of them.
//
// Moments are kept as shapes, not as pixels: a moment of CartPole takes 3 kB instead of 500. So episodes that are
// played at the same time can be recorded together and shown one after the other, and the colours of a GIF are chosen
// by all frames.
//
// Threads: single-thread. Owns what it records.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/canvas.h"

namespace tandem::app {

/// What is recorded, and how it is shown. Nothing here changes what is played. The program's flags fill it; a program
/// of yours may do so, too.
struct VideoOptions {
  std::filesystem::path path;  // is_video_path(), or empty: no video
  /// The first episodes of an evaluation, and so many steps of each.
  std::int64_t episodes = 1;
  std::int64_t steps = 1000;
  /// Steps shown in a second; nothing: as the environment's spec says, else 30. Kinds of files that cannot show so many
  /// leave out steps, and keep the pace.
  std::optional<double> fps = {};
  std::int64_t size = 600;  // as Painter takes it
};
/// Steps for each frame: more than one where the kind of file cannot show as many frames in a second as there are
/// steps. `render_fps`: that of the environment's spec, 0 where it says nothing.
[[nodiscard]] std::int64_t steps_per_frame(const VideoOptions& options, double render_fps);
/// Steps of all episodes of a video together. More would take hours to make, and nobody would watch them; the limit
/// catches slips of the pen.
inline constexpr std::int64_t kMostVideoSteps = 200'000;

/// A moment of an episode, with its picture. Episodes count from 1; step 0 is an episode's begin, and its return is 0.
struct Shot {
  std::int64_t episode = 0, step = 0;
  double episode_return = 0;
  std::vector<double> agent_returns = {};  // of several agents, whose sum is the return; else empty
  bool is_end = false;
  rl::Canvas picture = {};
};

/// Everything that was recorded, until the video is written.
class Film {
 public:
  /// Of all pictures together.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  /// Appends a moment to its episode. Shots of an episode come in the order of its steps; those of others may come
  /// between. Throws RunError when all take more than kMostBytes.
  void add(Shot shot);
  /// The names of several agents, in the order of Shot::agent_returns.
  void name_agents(std::vector<std::string> names) { agents_ = std::move(names); }
  /// What the strip says of the returns: "return 12.5"; "player_0 2.00, player_1 -2.00" where two or three agents are
  /// named and their returns sum to zero at all moments, as in a game in which one wins what others lose.
  [[nodiscard]] std::string returns_text(const Shot& shot) const;
  /// By episode, each in the order of its steps.
  [[nodiscard]] const std::vector<std::vector<Shot>>& episodes() const { return episodes_; }

 private:
  std::vector<std::vector<Shot>> episodes_;
  std::vector<std::string> agents_;
  bool sums_to_zero_ = true;  // all returns
  std::size_t bytes_ = 0;
};

/// A video that was made, for a line of text or for JSON.
struct VideoFacts {
  std::int64_t episodes = 0, frames = 0;
  std::int64_t cut_short = 0;  // episodes that are not shown to their end
  int width = 0, height = 0;
  double fps = 0;          // steps a second
  std::int64_t every = 1;  // a frame for so many steps, where the kind of file cannot show all of them
  std::uint64_t bytes = 0;
};

/// Writes the video. `fps`: steps a second where the options say nothing. `on_frame` gets how many of all frames are
/// done. Nothing when `stop` was requested: no file is left then. Throws RunError when a picture cannot be drawn,
/// naming its episode and step, and what VideoFile throws. The film has a shot (InvariantError).
[[nodiscard]] std::optional<VideoFacts> write_video(
    const Film& film, const VideoOptions& options, double fps, const std::stop_token& stop,
    const std::function<void(std::int64_t done, std::int64_t all)>& on_frame);

}  // namespace tandem::app
