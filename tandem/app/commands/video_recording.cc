#include "tandem/app/commands/video_recording.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "tandem/app/run/quantity_text.h"
#include "tandem/app/video/video_file.h"
#include "tandem/base/text.h"

namespace tandem::app {

VideoRecording::VideoRecording(const VideoOptions& options) : options_(options) {
  if (options_.path.empty()) return;
  check_video_path(options_.path);
  signals_.emplace([part = part_of(options_.path)] {
    std::error_code error;
    std::filesystem::remove_all(part, error);
  });
}

ShownEpisodes VideoRecording::shown(double render_fps) {
  if (options_.path.empty()) return {};
  return {.episodes = options_.episodes,
          .steps = options_.steps,
          .every = steps_per_frame(options_, render_fps),
          .on_moment = [this](const ShownMoment& moment, rl::Canvas picture) {
            film_.add({.episode = moment.episode,
                       .step = moment.step,
                       .episode_return = moment.episode_return,
                       .agent_returns = moment.agent_returns,
                       .is_end = moment.is_end,
                       .picture = std::move(picture)});
          }};
}

void VideoRecording::check_stop() const {
  if (signals_ && signals_->asked() != StopRequest::kNone) throw StoppedBySignal{};
}

void VideoRecording::write(ProgressLine& progress, double render_fps, std::vector<std::string> agents) {
  if (!signals_) return;
  film_.name_agents(std::move(agents));
  facts_ = write_video(film_, options_, render_fps, signals_->token(), [&](std::int64_t done, std::int64_t all) {
    progress.show([&] { return concat("drawing the video, ", 100 * done / all, " %"); });
  });
  progress.end();
  if (!facts_) throw StoppedBySignal{};
}

std::string VideoRecording::text() const {
  if (!facts_) return "";
  return concat("\n  video   ", options_.path.string(), ": ", counted(facts_->episodes, "episode"),
                facts_->cut_short > 0 ? concat(" (", facts_->cut_short, " not shown to the end: --video-steps)") : "",
                ", ", counted(facts_->frames, "frame"), " of ", facts_->width, " x ", facts_->height, ", ", facts_->fps,
                " steps a second", facts_->every > 1 ? concat(", of which one in ", facts_->every, " is shown") : "",
                ", ", count_text(static_cast<double>(facts_->bytes)), "B");
}

void VideoRecording::add_to(JsonWriter& json) const {
  json.key("video");
  if (!facts_) {
    json.value(nullptr);
    return;
  }
  json.begin_object().key("path").value(options_.path.string()).key("episodes").value(facts_->episodes);
  json.key("cut_short").value(facts_->cut_short);
  json.key("frames").value(facts_->frames).key("width").value(facts_->width).key("height").value(facts_->height);
  json.key("steps_per_second").value(facts_->fps).key("steps_per_frame").value(facts_->every);
  json.key("bytes").value(facts_->bytes).end_object();
}

}  // namespace tandem::app
