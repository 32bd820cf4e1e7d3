// A GIF that repeats for ever. Of each frame only the rectangle that differs from the one before is stored, and in it
// unchanged pixels are transparent, which compress to nearly nothing. A frame is written when the next one is known,
// since equal frames are one that is shown longer.
#include <gif_lib.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tandem/app/video/palette.h"
#include "tandem/app/video/video_file.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr int kTransparent = 255;    // index
constexpr double kHundredths = 100;  // of a second, in which GIF counts

struct Rectangle {
  int left = 0, top = 0, right = 0, bottom = 0;  // the last two are beyond it

  [[nodiscard]] bool is_empty() const { return right <= left; }
};

class GifFile final : public VideoFile {
 public:
  GifFile(const std::filesystem::path& path, const VideoFormat& format)
      : width_(format.width), height_(format.height), file_(path) {
    int error = 0;
    gif_ = EGifOpen(this, write_bytes, &error);
    if (gif_ == nullptr) fail(error);
    EGifSetGifVersion(gif_, true);
  }
  ~GifFile() override {
    int error = 0;
    if (gif_ != nullptr) EGifCloseFile(gif_, &error);
  }
  GifFile(const GifFile&) = delete;
  GifFile& operator=(const GifFile&) = delete;

  [[nodiscard]] bool looks_first() const override { return true; }
  void look(const VideoFrame& frame) override { palette_.count(frame.rgb); }

  void add(const VideoFrame& frame, const FramePlace& /*place*/, double seconds) override {
    std::vector<std::uint8_t> indices(frame.rgb.size() / 3);
    if (now_.empty()) begin();
    for (std::size_t i = 0; i < indices.size(); ++i)
      indices[i] = palette_.index_of(frame.rgb[3 * i], frame.rgb[3 * i + 1], frame.rgb[3 * i + 2]);
    if (now_.empty()) {
      change_ = {0, 0, width_, height_};
    } else if (const Rectangle change = changed(now_, indices); !change.is_empty()) {
      flush();
      change_ = change;
    }
    now_ = std::move(indices);
    ends_at_ += seconds;
  }
  std::uint64_t commit() override {
    if (!now_.empty()) flush();
    int error = 0;
    const int done = EGifCloseFile(std::exchange(gif_, nullptr), &error);
    if (failure_) std::rethrow_exception(failure_);
    if (done == GIF_ERROR) fail(error);
    file_.commit();
    return file_.size();
  }

 private:
  // Called by giflib, which is C: an exception must not pass through it.
  static int write_bytes(GifFileType* gif, const GifByteType* bytes, int count) {
    auto* self = static_cast<GifFile*>(gif->UserData);
    try {
      self->file_.write(std::as_bytes(std::span(bytes, static_cast<std::size_t>(count))));
      return count;
    } catch (...) {
      self->failure_ = std::current_exception();
      return 0;
    }
  }
  [[noreturn]] static void fail(int error) {
    const char* reason = GifErrorString(error);
    throw RunError(concat("the GIF could not be written: giflib says: ", reason == nullptr ? "no reason" : reason));
  }
  void check(int result) {
    if (failure_) std::rethrow_exception(failure_);
    if (result == GIF_ERROR) fail(gif_->Error);
  }

  // The head: size, colours, and that it repeats.
  void begin() {
    palette_.choose();
    std::array<GifColorType, 256> colors{};
    for (std::size_t i = 0; i < palette_.colors().size(); ++i) {
      const Rgb& color = palette_.colors()[i];
      colors[i] = {color[0], color[1], color[2]};
    }
    ColorMapObject* map = GifMakeMapObject(static_cast<int>(colors.size()), colors.data());
    if (map == nullptr) fail(E_GIF_ERR_NOT_ENOUGH_MEM);
    const int done = EGifPutScreenDesc(gif_, width_, height_, 8, 0, map);
    GifFreeMapObject(map);
    check(done);
    // Netscape's extension: the number of repeats, 0 for ever, in two bytes behind a 1.
    constexpr std::array<GifByteType, 3> kForEver{1, 0, 0};
    check(EGifPutExtensionLeader(gif_, APPLICATION_EXT_FUNC_CODE));
    check(EGifPutExtensionBlock(gif_, 11, "NETSCAPE2.0"));
    check(EGifPutExtensionBlock(gif_, static_cast<int>(kForEver.size()), kForEver.data()));
    check(EGifPutExtensionTrailer(gif_));
  }

  [[nodiscard]] Rectangle changed(const std::vector<std::uint8_t>& from, const std::vector<std::uint8_t>& to) const {
    Rectangle change{width_, height_, 0, 0};
    const auto width = static_cast<std::size_t>(width_);
    for (int row = 0; row < height_; ++row) {
      const std::size_t begin = static_cast<std::size_t>(row) * width;
      if (std::memcmp(from.data() + begin, to.data() + begin, width) == 0) continue;
      change.top = std::min(change.top, row);
      change.bottom = row + 1;
      for (int column = 0; column < width_; ++column) {
        const std::size_t at = begin + static_cast<std::size_t>(column);
        if (from[at] == to[at]) continue;
        change.left = std::min(change.left, column);
        change.right = std::max(change.right, column + 1);
      }
    }
    return change;
  }

  // Writes the frame in now_, where it differs from the one that was written before. Frames end at rounded times, so
  // that rounding does not add up.
  void flush() {
    const auto end = static_cast<std::int64_t>(std::llround(ends_at_ * kHundredths));
    const GraphicsControlBlock control{.DisposalMode = DISPOSE_DO_NOT,
                                       .UserInputFlag = false,
                                       .DelayTime = static_cast<int>(std::min<std::int64_t>(end - ended_, 65535)),
                                       .TransparentColor = kTransparent};
    ended_ = end;
    std::array<GifByteType, 4> extension{};
    EGifGCBToExtension(&control, extension.data());
    check(EGifPutExtension(gif_, GRAPHICS_EXT_FUNC_CODE, static_cast<int>(extension.size()), extension.data()));
    const Rectangle& its = change_;
    check(EGifPutImageDesc(gif_, its.left, its.top, its.right - its.left, its.bottom - its.top, false, nullptr));
    std::vector<std::uint8_t> line;
    for (int row = its.top; row < its.bottom; ++row) {
      line.clear();
      for (int column = its.left; column < its.right; ++column) {
        const auto at =
            static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column);
        const bool is_same = !written_.empty() && written_[at] == now_[at];
        line.push_back(is_same ? static_cast<std::uint8_t>(kTransparent) : now_[at]);
      }
      check(EGifPutLine(gif_, line.data(), static_cast<int>(line.size())));
    }
    written_ = now_;
  }

  const int width_, height_;
  AtomicFile file_;
  GifFileType* gif_ = nullptr;
  std::exception_ptr failure_;  // of a write
  Palette palette_;
  // Indices of the newest frame and of what was written last; where the newest one differs from it.
  std::vector<std::uint8_t> now_, written_;
  Rectangle change_;
  double ends_at_ = 0;      // of the newest frame, in seconds
  std::int64_t ended_ = 0;  // of what was written last, in hundredths
};

}  // namespace

std::unique_ptr<VideoFile> make_gif_file(const std::filesystem::path& path, const VideoFormat& format) {
  return std::make_unique<GifFile>(path, format);
}

}  // namespace tandem::app
