// An MP4 (H.264) by the program ffmpeg, which reads the frames from a socket: a write to one whose reader has ended is
// an error, where a pipe would end this process.
//
// ffmpeg has a process group of its own, so that Ctrl-C at a terminal reaches this program alone, which then ends it.
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "tandem/app/run/other_program.h"
#include "tandem/app/video/video_file.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/forked_program.h"
#include "tandem/base/nameless_memory.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// ffmpeg takes a frame in milliseconds, and ends within seconds of the last one.
constexpr std::chrono::seconds kPatience{60};

class Mp4File final : public VideoFile {
 public:
  Mp4File(std::filesystem::path path, const VideoFormat& format)
      : path_(std::move(path)), part_(part_of(path_)), fps_(format.fps) {
    start(format);
  }
  ~Mp4File() override {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    std::error_code error;
    std::filesystem::remove(part_, error);
  }
  Mp4File(const Mp4File&) = delete;
  Mp4File& operator=(const Mp4File&) = delete;

  // A video has a frame at each instant, so one that is shown longer is sent again.
  void add(const VideoFrame& frame, const FramePlace& /*place*/, double seconds) override {
    const auto times = std::max<std::int64_t>(1, std::llround(seconds * fps_));
    for (std::int64_t i = 0; i < times; ++i) send(frame.rgb);
  }
  std::uint64_t commit() override {
    frames_.close();
    const int status = end_of_process();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("it did not make the video");
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(part_, error);
    if (!error) std::filesystem::rename(part_, path_, error);
    if (error) throw_file_error("write", path_, error.value());
    return bytes;
  }

 private:
  void start(const VideoFormat& format) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail_to_start(errno);
    frames_ = Descriptor(ends[0]);
    const Descriptor input(ends[1]);
    words_ = nameless_memory("ffmpeg");
    const timeval limit{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(frames_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    std::vector<std::string> words{find_ffmpeg().string()};
    std::istringstream fixed(
        concat("-hide_banner -loglevel error -nostdin -y -f rawvideo -pixel_format rgb24 -video_size ", format.width,
               "x", format.height, " -framerate ", format.fps,
               " -i pipe:0 -an -c:v libx264 -preset medium -crf 18 -pix_fmt yuv420p -movflags +faststart -f mp4"));
    for (std::string word; fixed >> word;) words.push_back(word);
    words.push_back(std::filesystem::absolute(part_).string());  // a name that begins with a dash is no flag
    std::vector<char*> arguments = pointers_to(words);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files, words_.get(), STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int error = ::posix_spawn(&process_, words[0].c_str(), &files, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error == 0) return;
    process_ = -1;
    fail_to_start(error);
  }
  [[noreturn]] static void fail_to_start(int error) {
    throw RunError(concat("ffmpeg, which makes the MP4, cannot be started: ", std::generic_category().message(error),
                          "; write a .gif"));
  }

  void send(const std::vector<std::uint8_t>& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t sent = ::send(frames_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (sent > 0) {
        done += static_cast<std::size_t>(sent);
      } else if (errno != EINTR) {
        const bool is_late = errno == EAGAIN || errno == EWOULDBLOCK;
        fail(is_late ? concat("it took no frame for ", kPatience.count(), " s") : "it ended before the last frame");
      }
    }
  }
  int end_of_process() {
    const Clock::time_point limit = Clock::now() + kPatience;
    int status = 0;
    while (::waitpid(process_, &status, WNOHANG) == 0) {
      if (Clock::now() > limit) fail(concat("it has not ended ", kPatience.count(), " s after the last frame"));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process_ = -1;
    return status;
  }
  // With the last words of ffmpeg, which say what was wrong.
  [[noreturn]] void fail(const std::string& what) const {
    const std::string said = last_said(words_);
    throw RunError(concat("ffmpeg failed to make ", path_.string(), ": ", what,
                          said.empty() ? std::string("; it said nothing") : concat("; it said: ", said)));
  }

  const std::filesystem::path path_, part_;
  const double fps_;
  Descriptor frames_, words_;  // ffmpeg's input, and what it wrote to standard error
  pid_t process_ = -1;
};

}  // namespace

std::filesystem::path find_ffmpeg() { return find_program({"ffmpeg"}).value_or(std::filesystem::path()); }

std::unique_ptr<VideoFile> make_mp4_file(const std::filesystem::path& path, const VideoFormat& format) {
  return std::make_unique<Mp4File>(path, format);
}

}  // namespace tandem::app
