#include "tandem/app/video/film.h"

#include <algorithm>
#include <cmath>

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/video/video_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr double kUsualFps = 30;
constexpr double kHeldSeconds = 1;  // the last moment of an episode, so that it is seen

double steps_per_second(const VideoOptions& options, double render_fps) {
  return options.fps.value_or(render_fps > 0 ? render_fps : kUsualFps);
}

std::string text_of(double episode_return) { return episode_return == 0 ? "0" : value_text(episode_return); }

Caption caption_of(const Film& film, const Shot& shot) {
  return {.left = concat("episode ", shot.episode, shot.is_end ? ", ended after step " : ", step ", shot.step),
          .right = film.returns_text(shot),
          .is_end = shot.is_end};
}

// Shots that become frames: every `every`-th, and the last one of each episode.
std::vector<const Shot*> shown_shots(const Film& film, std::int64_t every) {
  std::vector<const Shot*> shown;
  for (const std::vector<Shot>& episode : film.episodes()) {
    for (const Shot& shot : episode) {
      if (shot.step % every == 0 || &shot == &episode.back()) shown.push_back(&shot);
    }
  }
  return shown;
}

const VideoFrame& painted(Painter& painter, const Film& film, const Shot& shot) {
  try {
    return painter.paint(shot.picture, caption_of(film, shot));
  } catch (const RunError& error) {
    throw RunError(concat("step ", shot.step, " of episode ", shot.episode, ": ", error.what()));
  }
}

}  // namespace

void Film::add(Shot shot) {
  bytes_ += sizeof(Shot) + shot.picture.bytes();
  if (bytes_ > kMostBytes)
    throw RunError(concat("the pictures of the video take more than ", kMostBytes >> 20, " MiB before step ", shot.step,
                          " of episode ", shot.episode,
                          "; record less (--video-episodes, --video-steps), or draw smaller images"));
  constexpr double kRounding = 1e-9;
  sums_to_zero_ = sums_to_zero_ && std::abs(shot.episode_return) <= kRounding;
  const auto index = static_cast<std::size_t>(shot.episode - 1);
  if (index >= episodes_.size()) episodes_.resize(index + 1);
  episodes_[index].push_back(std::move(shot));
}

std::string Film::returns_text(const Shot& shot) const {
  constexpr std::size_t kMostAgents = 3;  // that the strip has room for
  const std::vector<double>& returns = shot.agent_returns;
  if (!sums_to_zero_ || returns.size() < 2 || returns.size() > kMostAgents || agents_.size() != returns.size())
    return concat("return ", text_of(shot.episode_return));
  std::string text;
  for (std::size_t agent = 0; agent < returns.size(); ++agent)
    text += concat(agent == 0 ? "" : ", ", agents_[agent], " ", text_of(returns[agent]));
  return text;
}

std::int64_t steps_per_frame(const VideoOptions& options, double render_fps) {
  return static_cast<std::int64_t>(
      std::max(1.0, std::ceil(steps_per_second(options, render_fps) / most_fps(options.path) - 1e-9)));
}

std::optional<VideoFacts> write_video(const Film& film, const VideoOptions& options, double fps,
                                      const std::stop_token& stop,
                                      const std::function<void(std::int64_t done, std::int64_t all)>& on_frame) {
  VideoFacts facts{.fps = steps_per_second(options, fps), .every = steps_per_frame(options, fps)};
  const std::vector<const Shot*> shots = shown_shots(film, facts.every);
  TANDEM_CHECK(!shots.empty(), "no shot");
  Painter painter(shots.front()->picture, static_cast<int>(options.size));
  facts.width = painter.width();
  facts.height = painter.height();
  const double seconds = static_cast<double>(facts.every) / facts.fps;
  const std::unique_ptr<VideoFile> file =
      make_video_file(options.path, {.width = painter.width(), .height = painter.height(), .fps = 1 / seconds});
  const auto count = static_cast<std::int64_t>(shots.size());
  const std::int64_t all = file->looks_first() ? 2 * count : count;
  std::int64_t done = 0;
  if (file->looks_first()) {
    for (const Shot* shot : shots) {
      if (stop.stop_requested()) return std::nullopt;
      file->look(painted(painter, film, *shot));
      on_frame(++done, all);
    }
  }
  for (std::size_t i = 0; i < shots.size(); ++i) {
    if (stop.stop_requested()) return std::nullopt;
    const bool is_last = i + 1 == shots.size() || shots[i + 1]->episode != shots[i]->episode;
    file->add(painted(painter, film, *shots[i]), {.episode = shots[i]->episode, .step = shots[i]->step},
              is_last ? std::max(seconds, kHeldSeconds) : seconds);
    on_frame(++done, all);
  }
  facts.episodes = static_cast<std::int64_t>(film.episodes().size());
  facts.frames = count;
  facts.cut_short = std::ranges::count_if(film.episodes(), [](const auto& episode) { return !episode.back().is_end; });
  facts.bytes = file->commit();
  return facts;
}

}  // namespace tandem::app
