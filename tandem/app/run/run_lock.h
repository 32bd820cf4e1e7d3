// app/run/run_lock.h: keeps two processes from using one run folder at once.
//
// A lock of the system (flock) on the file .lock of the folder. It ends with the process, however that ends, so a lock
// file that lies there after a SIGKILL or a power cut is no obstacle.
//
// Threads: single-thread.
//
// Ownership: the object owns the open file. The lock belongs to the open file description, so a process that forks
// shares it with the child until both have closed it. Reading a run folder needs no lock.
#pragma once
#include <filesystem>

#include "tandem/base/descriptor.h"

namespace tandem::app {

class RunLock {
 public:
  /// Waits no longer than a look of is_held() takes. Throws ConfigError naming the process that holds the folder, and
  /// CheckpointError when the file cannot be made. Tries five times, 10 ms apart, so it gives up after about 40 ms.
  explicit RunLock(const std::filesystem::path& folder);

  /// Whether a process holds the folder. Who wants it at this very moment may have to try a second time, as the
  /// constructor does.
  [[nodiscard]] static bool is_held(const std::filesystem::path& folder);

  /// The file stays in the folder after the run. It holds the process id of the last holder, for messages only.
  static constexpr const char* kFileName = ".lock";

 private:
  Descriptor file_;
};

}  // namespace tandem::app
