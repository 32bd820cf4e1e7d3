#include "tandem/app/video/video_file.h"

#include <limits>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

enum class Kind { kGif, kMp4, kFrames, kNone };

Kind kind_of(const std::filesystem::path& path) {
  if (!path.has_filename()) return path.empty() ? Kind::kNone : Kind::kFrames;
  return path.extension() == ".gif" ? Kind::kGif : path.extension() == ".mp4" ? Kind::kMp4 : Kind::kNone;
}

// The path of a folder without the slash behind it.
std::filesystem::path bare(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

bool is_video_path(const std::filesystem::path& path) { return kind_of(path) != Kind::kNone; }

void check_video_path(const std::filesystem::path& path) {
  const std::string flag = concat("--video ", path.string(), ": ");
  const Kind kind = kind_of(path);
  std::error_code error;
  const std::filesystem::path name = bare(path), into = name.parent_path();
  if (!into.empty() && !std::filesystem::is_directory(into, error))
    throw ConfigError(concat(flag, "there is no folder ", into.string()));
  const bool is_folder = std::filesystem::is_directory(name, error);
  if (kind == Kind::kFrames && std::filesystem::exists(name, error) &&
      !(is_folder && std::filesystem::is_empty(name, error)))
    throw ConfigError(flag + "it is there already; frames go into a new folder, or into an empty one");
  if (kind != Kind::kFrames && is_folder) throw ConfigError(flag + "it is a folder");
  if (kind == Kind::kMp4 && find_ffmpeg().empty())
    throw ConfigError(flag +
                      "an MP4 is made by the program ffmpeg, which is not in PATH; install it (apt-get install "
                      "ffmpeg), or write a .gif");
}

double most_fps(const std::filesystem::path& path) {
  return kind_of(path) == Kind::kGif ? kMostGifFps : std::numeric_limits<double>::infinity();
}

std::filesystem::path part_of(const std::filesystem::path& path) { return bare(path).string() + ".part"; }

std::unique_ptr<VideoFile> make_video_file(const std::filesystem::path& path, const VideoFormat& format) {
  switch (kind_of(path)) {
    case Kind::kGif:
      return make_gif_file(path, format);
    case Kind::kMp4:
      return make_mp4_file(path, format);
    case Kind::kFrames:
      return make_frame_folder(bare(path));
    case Kind::kNone:
      break;
  }
  throw ConfigError(concat("no video can be written to ", path.string()));
}

}  // namespace tandem::app
