// app/commands/video_recording.h: records the first episodes of an evaluation and writes their video.
//
//   VideoRecording recording(command.video);         // throws what is wrong with the path
//   options.shown = recording.shown(spec.render_fps);   // and calls check_stop() in on_step
//   ... evaluate ...
//   recording.write(progress, spec.render_fps, names);
//
// Threads: single-thread. Without a video it does nothing: a signal then ends the process, as it does in other commands
// that only read.
//
// A signal, such as Ctrl-C, ends the evaluation or the writing of the video at its next step; no file is left then. A
// second Ctrl-C ends the process at once, after the unfinished file is removed.
#pragma once
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/commands/progress_line.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/video/film.h"
#include "tandem/base/json_writer.h"

namespace tandem::app {

/// Thrown by check_stop(), to end an evaluation.
struct StoppedBySignal : std::exception {};

/// One for a command, made before it does anything else: so a path that cannot be written costs no waiting.
class VideoRecording {
 public:
  /// Throws ConfigError as check_video_path() does. `options` outlives the object.
  explicit VideoRecording(const VideoOptions& options);

  /// Records the moments that an evaluation shows, as many of them as the video has. Refers to this object.
  [[nodiscard]] ShownEpisodes shown(double render_fps);
  /// Throws StoppedBySignal after a signal.
  void check_stop() const;
  /// Writes the video, once, after the evaluation. `render_fps`: the spec's; `agents`: the names of several. Throws as
  /// write_video() does, and StoppedBySignal.
  void write(ProgressLine& progress, double render_fps, std::vector<std::string> agents);

  /// A line for people, which begins with a line end; empty without a video.
  [[nodiscard]] std::string text() const;
  /// Adds the key "video", null without one.
  void add_to(JsonWriter& json) const;

 private:
  const VideoOptions& options_;
  Film film_;
  std::optional<StopSignals> signals_;
  std::optional<VideoFacts> facts_;  // of what was written
};

}  // namespace tandem::app
