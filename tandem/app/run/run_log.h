// app/run/run_log.h: log.txt, what happened in a run and what `auto` chose.
//
// Threads: all. A line that cannot be written (a full disk, a descriptor that a library closed) is dropped: what the
// run cannot do without, its checkpoints and metrics, report that themselves.
//
// The file is opened for appending, and each line is one write(), so that a reader never sees half of a line of another
// thread. Times are in UTC, with milliseconds.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"

namespace tandem::app {

/// Rising, so that a comparison says which lines are kept.
enum class Severity { kDebug, kInfo, kWarning, kError };

/// The log of one process of a run; a run that is resumed appends to the same file.
class RunLog {
 public:
  /// Called with every warning and error, on the thread that logs it, outside of any lock.
  using Listener = std::function<void(Severity, std::string_view text)>;

  /// Appends to the file. Throws CheckpointError when it cannot be opened. Lines below `least` are left out. The
  /// listener hears warnings and errors whatever `least` is.
  RunLog(const std::filesystem::path& file, Severity least, Listener listener = {});

  void debug(std::string_view text) { write(Severity::kDebug, text); }
  void info(std::string_view text) { write(Severity::kInfo, text); }
  void warning(std::string_view text) { write(Severity::kWarning, text); }
  void error(std::string_view text) { write(Severity::kError, text); }

 private:
  void write(Severity severity, std::string_view text);

  const Severity least_;
  const Listener listener_;
  Mutex mutex_;
  Descriptor file_ TANDEM_GUARDED_BY(mutex_);
  const FileIdentity identity_;
};

/// "2026-11-21T10:49:25.123Z warning  text", further lines of the text indented, with its line break.
[[nodiscard]] std::string log_line(std::chrono::system_clock::time_point time, Severity severity,
                                   std::string_view text);

}  // namespace tandem::app
