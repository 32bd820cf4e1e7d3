#include "tandem/app/run/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "tandem/base/input_file.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

const char* word_of(Severity severity) {
  static constexpr std::array<const char*, 4> kWords{"debug  ", "info   ", "warning", "error  "};
  return kWords[static_cast<std::size_t>(severity)];
}

}  // namespace

std::string log_line(std::chrono::system_clock::time_point time, Severity severity, std::string_view text) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 40> stamp{};
  const std::size_t size = std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(stamp.data() + size, stamp.size() - size, ".%03dZ", static_cast<int>(milliseconds));
  // Indented further lines keep a multi-line text from looking like several entries.
  std::string line = std::string(stamp.data()) + " " + word_of(severity) + "  ";
  for (const char c : printable(text)) {
    line += c;
    if (c == '\n') line += "    ";
  }
  return line + "\n";
}

RunLog::RunLog(const std::filesystem::path& file, Severity least, Listener listener)
    : least_(least),
      listener_(std::move(listener)),
      file_(open_regular("open", file, O_WRONLY | O_CREAT | O_APPEND)),
      identity_(FileIdentity::of(file_)) {}

void RunLog::write(Severity severity, std::string_view text) {
  if (severity >= least_) {
    const std::string line = log_line(std::chrono::system_clock::now(), severity, text);
    const MutexLock lock(mutex_);
    // Another file may have the number by now, of which this line is no part.
    if (FileIdentity::of(file_) == identity_) {
      [[maybe_unused]] const ssize_t written = ::write(file_.get(), line.data(), line.size());
    }
  }
  // The lock is released here, so the listener may take its time or log something itself.
  if (severity >= Severity::kWarning && listener_) listener_(severity, text);
}

}  // namespace tandem::app
