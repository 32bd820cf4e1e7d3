// app/video/video_file.h: files of moving pictures: GIF, MP4, and folders of PNG files.
//
// All of them are written under a temporary name, PATH.part, and get their own name in commit(): so a file of that name
// is whole. Without commit() nothing is left.
//
// Threads: single-thread. Blocks on the disk, and for MP4 on ffmpeg, which is waited for with a limit.
// Errors: CheckpointError for files that cannot be written, RunError where giflib, cairo or ffmpeg fails.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tandem/app/video/painter.h"

namespace tandem::app {

/// What a frame shows: names a file of a folder.
struct FramePlace {
  std::int64_t episode = 0, step = 0;
};

/// A file that is being written. Frames come in the order in which they are shown.
class VideoFile {
 public:
  /// Removes what was written, unless it was committed.
  virtual ~VideoFile() = default;

  /// Whether all frames are shown to look() before the first add(): a GIF chooses its colours by them.
  [[nodiscard]] virtual bool looks_first() const { return false; }
  virtual void look(const VideoFrame& /*frame*/) {}
  /// The next frame, and for how many seconds it is shown. All frames have one size.
  virtual void add(const VideoFrame& frame, const FramePlace& place, double seconds) = 0;
  /// Gives the file its name. Call it once, after the last frame. Returns its bytes.
  virtual std::uint64_t commit() = 0;
};

/// The size of all frames, in pixels, and how many are shown in a second.
struct VideoFormat {
  int width = 0, height = 0;
  double fps = 30;
};

/// Programs show no more frames of a GIF in a second, and slow down those that ask for it.
inline constexpr double kMostGifFps = 50;

/// Whether it ends with .gif, .mp4 or a slash, which means a folder of PNG files.
[[nodiscard]] bool is_video_path(const std::filesystem::path& path);
/// Looks at such a path before anything is played: its folder is there, and so is ffmpeg for an MP4; a folder of frames
/// is new or empty. Throws ConfigError that says what would work.
void check_video_path(const std::filesystem::path& path);
/// The most frames a second that the kind of file shows.
[[nodiscard]] double most_fps(const std::filesystem::path& path);
/// The name under which the file lies until commit().
[[nodiscard]] std::filesystem::path part_of(const std::filesystem::path& path);
/// A file for a path that is_video_path().
[[nodiscard]] std::unique_ptr<VideoFile> make_video_file(const std::filesystem::path& path, const VideoFormat& format);

// The kinds, each in a file of its name. A GIF repeats for ever, and stores of each frame what differs from the one
// before. An MP4 is H.264 in the pixel format that all players know. A folder has "episode-001-step-00042.png" for
// each frame, without regard to its time.
[[nodiscard]] std::unique_ptr<VideoFile> make_gif_file(const std::filesystem::path& path, const VideoFormat& format);
[[nodiscard]] std::unique_ptr<VideoFile> make_mp4_file(const std::filesystem::path& path, const VideoFormat& format);
[[nodiscard]] std::unique_ptr<VideoFile> make_frame_folder(const std::filesystem::path& path);
/// The program ffmpeg in PATH; empty when there is none.
[[nodiscard]] std::filesystem::path find_ffmpeg();

}  // namespace tandem::app
