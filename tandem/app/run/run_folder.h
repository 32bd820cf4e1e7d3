// app/run/run_folder.h: where a run keeps what it was, did and learned.
//
//   config.yaml     all settings, as resolved       metrics.jsonl  one line an update
//   summary.json    how it went, written at its end  curve.png      the picture of it
//   rollouts.jsonl  steps of each env group, where rollouts may end early
//   checkpoints/    to go on from                    log.txt        what happened
//   status.json     what each rank is at
//
// Threads: single-thread. Ownership: a RunFolder holds the folder's lock for as long as it lives.
//
// A folder passes through the states of FolderContent: free, then unbegun once config.yaml is written, then a run once
// it has made an update. Only the first two may be used for a new run, so no result is ever overwritten.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "tandem/base/descriptor.h"

namespace tandem::app {

/// The files of a run folder; reading them needs no lock. An environment may change the current folder of the process
/// while a run goes, so the paths of a RunFolder do not depend on it.
struct RunPaths {
  std::filesystem::path folder;     // as the user named it: for messages
  std::filesystem::path base = {};  // of a relative `folder`; empty: the current folder

  [[nodiscard]] std::filesystem::path place() const { return base / folder; }
  [[nodiscard]] std::filesystem::path config() const { return place() / "config.yaml"; }
  [[nodiscard]] std::filesystem::path metrics() const { return place() / "metrics.jsonl"; }
  [[nodiscard]] std::filesystem::path rollouts() const { return place() / "rollouts.jsonl"; }
  [[nodiscard]] std::filesystem::path summary() const { return place() / "summary.json"; }
  [[nodiscard]] std::filesystem::path status() const { return place() / "status.json"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return place() / "checkpoints"; }
  [[nodiscard]] std::filesystem::path best() const { return place() / "best"; }
  [[nodiscard]] std::filesystem::path curve() const { return place() / "curve.png"; }
  [[nodiscard]] std::filesystem::path log() const { return place() / "log.txt"; }
  [[nodiscard]] std::filesystem::path trace() const { return place() / "trace.json"; }
  [[nodiscard]] std::filesystem::path profile() const { return place() / "profile.txt"; }
};

/// The contents of a path.
enum class FolderContent {
  kNothing,  // no such folder
  kFree,     // an empty folder, or one whose run ended before its settings were written
  kUnbegun,  // a run that ended before its first update: its settings and its log, and nothing that it learned
  kRun,      // a run: it has a config.yaml
  kElse,     // other files
};
/// Looks without the lock, so the answer may be old by the time that it is used. Throws CheckpointError when the path
/// cannot be read.
[[nodiscard]] FolderContent content_of(const std::filesystem::path& folder);
/// Whether that is a run, begun or not.
[[nodiscard]] bool holds_run(const std::filesystem::path& folder);

/// Throws ConfigError unless `folder` holds a run, saying what it holds instead. Takes no lock, so it also serves
/// programs that only read.
[[nodiscard]] RunPaths find_run(const std::filesystem::path& folder);

/// "runs/<env>-<algo>-<date>-<time>" in `parent`, with a number behind it when that exists.
[[nodiscard]] std::filesystem::path new_run_path(const std::filesystem::path& parent, std::string_view env,
                                                 std::string_view algo, std::chrono::system_clock::time_point now);

/// Throws ConfigError unless a new run can begin in `folder`: it holds a run that has begun, naming --resume, or other
/// files.
void require_free(const std::filesystem::path& folder);

/// Keeps two processes from using one run folder at once: a lock of the system (flock) on the file .lock of the folder.
/// It ends with the process, however that ends, so a lock file that lies there after a SIGKILL or a power cut is no
/// obstacle. The lock belongs to the open file description, so a process that forks shares it with the child until both
/// have closed it.
class RunLock {
 public:
  /// Waits no longer than a look of is_held() takes. Throws ConfigError naming the process that holds the folder, and
  /// CheckpointError when the file cannot be made. Tries five times, 10 ms apart, so it gives up after about 40 ms.
  explicit RunLock(const std::filesystem::path& folder);

  /// Whether a process holds the folder. Who wants it at this very moment may have to try a second time, as the
  /// constructor does.
  [[nodiscard]] static bool is_held(const std::filesystem::path& folder);

  /// Whether `file` is the file that this object has locked. True as well when the system cannot tell.
  [[nodiscard]] bool is_at(const std::filesystem::path& file) const;

  /// The file stays in the folder after the run. It holds the process id of the last holder, for messages only.
  static constexpr const char* kFileName = ".lock";

 private:
  Descriptor file_;
  FileIdentity identity_;  // of the file, also when a library has closed the descriptor
};

/// Movable, so that create() and open() can return it; the lock moves along.
class RunFolder {
 public:
  /// A folder for a new run, with `config` as its config.yaml; that of a run that never began is kept beside it when it
  /// says something else. Throws as require_free(); CheckpointError when it cannot be written.
  [[nodiscard]] static RunFolder create(const std::filesystem::path& folder, std::string_view config);
  /// The folder of a run that goes on. Throws as find_run(). Throws ConfigError, too, when another process holds the
  /// lock.
  [[nodiscard]] static RunFolder open(const std::filesystem::path& folder);

  [[nodiscard]] const RunPaths& paths() const { return paths_; }
  /// Says what create() found of a run that never began, for the log and the user; empty when there was none.
  [[nodiscard]] const std::string& remark() const { return remark_; }
  /// Writes config.yaml anew, whole or not at all.
  void write_config(std::string_view config);
  /// Whether the folder is still at its place. If not, it was removed or moved, and what lies there now, if anything,
  /// may be another run's. Costs one system call. From any thread.
  [[nodiscard]] bool is_in_place() const { return lock_.is_at(lock_file_); }
  /// Throws RunError unless is_in_place(). Called before the run writes what would bring a removed folder back, or
  /// change another run's files. From any thread.
  void require_in_place() const;

 private:
  RunFolder(RunPaths paths, RunLock lock)
      : paths_(std::move(paths)), lock_(std::move(lock)), lock_file_(paths_.place() / RunLock::kFileName) {}
  void keep_unbegun(std::string_view config);

  RunPaths paths_;
  RunLock lock_;
  std::filesystem::path lock_file_;  // kept, since each update asks whether it is in place
  std::string remark_;
};

}  // namespace tandem::app
