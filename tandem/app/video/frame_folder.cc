// A folder of PNG files, "episode-001-step-00042.png" each, by cairo.
#include <cairo.h>

#include <cstdio>
#include <string>
#include <system_error>

#include "tandem/app/video/video_file.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// Cairo hands over a file in pieces.
cairo_status_t append_piece(void* text, const unsigned char* data, unsigned int size) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(data), size);
  return CAIRO_STATUS_SUCCESS;
}

std::string png_of(const VideoFrame& frame) {
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, frame.width, frame.height);
  cairo_surface_flush(surface);
  unsigned char* bytes = cairo_image_surface_get_data(surface);
  const int stride = cairo_image_surface_get_stride(surface);
  const std::uint8_t* from = frame.rgb.data();
  for (int row = 0; bytes != nullptr && row < frame.height; ++row) {
    auto* to = reinterpret_cast<std::uint32_t*>(bytes + std::ptrdiff_t{row} * stride);
    for (int column = 0; column < frame.width; ++column, from += 3)
      to[column] = std::uint32_t{from[0]} << 16 | std::uint32_t{from[1]} << 8 | from[2];
  }
  cairo_surface_mark_dirty(surface);
  std::string png;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface, append_piece, &png);
  cairo_surface_destroy(surface);
  if (status != CAIRO_STATUS_SUCCESS)
    throw RunError(concat("a frame could not be written: cairo says: ", cairo_status_to_string(status)));
  return png;
}

class FrameFolder final : public VideoFile {
 public:
  explicit FrameFolder(std::filesystem::path path) : path_(std::move(path)), part_(part_of(path_)) {
    std::error_code error;
    std::filesystem::remove_all(part_, error);  // of a process that was killed
    if (!std::filesystem::create_directory(part_, error)) throw_file_error("make", part_, error.value());
  }
  ~FrameFolder() override {
    std::error_code error;
    std::filesystem::remove_all(part_, error);
  }
  FrameFolder(const FrameFolder&) = delete;
  FrameFolder& operator=(const FrameFolder&) = delete;

  void add(const VideoFrame& frame, const FramePlace& place, double /*seconds*/) override {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "episode-%03lld-step-%05lld.png", static_cast<long long>(place.episode),
                  static_cast<long long>(place.step));
    const std::string png = png_of(frame);
    write_file(part_ / name.data(), png);
    bytes_ += png.size();
  }
  std::uint64_t commit() override {
    std::error_code error;
    std::filesystem::rename(part_, path_, error);
    if (error) throw_file_error("make", path_, error.value());
    return bytes_;
  }

 private:
  const std::filesystem::path path_, part_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<VideoFile> make_frame_folder(const std::filesystem::path& path) {
  return std::make_unique<FrameFolder>(path);
}

}  // namespace tandem::app
