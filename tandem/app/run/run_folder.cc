// The content of a folder is judged by the names of its files, some sizes and status.json: a process may be killed
// between any two writes, so each order of writes has to leave a folder that a later process can classify. The lock
// file comes first, and config.yaml before anything that the run makes.
#include "tandem/app/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <thread>

#include "tandem/app/run/program_name.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/run/seed_folders.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/input_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

namespace fs = std::filesystem;

// Left behind by a run that was killed before its config.yaml was in place.
bool is_left_over(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == RunLock::kFileName || name == "log.txt" || name == "config.yaml.part";
}

// The settings of a run that never began are kept under the first such name that is free.
fs::path kept_config(const fs::path& folder, int number) { return folder / concat("config.yaml.", number); }

bool is_kept_config(std::string_view name) {
  constexpr std::string_view kStem = "config.yaml.", kPart = ".part";
  if (name.ends_with(kPart)) name.remove_suffix(kPart.size());  // of a process that was killed while it wrote
  return name.size() > kStem.size() && name.starts_with(kStem) &&
         name.find_first_not_of("0123456789", kStem.size()) == std::string_view::npos;
}

bool made_no_step(const fs::path& status_file) {
  try {
    const std::optional<RunStatus> status = read_status(status_file);
    return status && status->env_steps == 0;
  } catch (const RunError&) {
    return false;  // who can tell
  }
}

bool summary_has_no_step(const fs::path& summary) {
  try {
    return read_json_file(summary).at("env_steps").as_int64() == 0;
  } catch (const Error&) {
    return false;  // who can tell
  }
}

// A file that a run has before its first update, as it is then. Any other shows that it began, or is not ours.
bool is_of_unbegun(const fs::directory_entry& entry) {
  std::error_code error;
  const std::string name = entry.path().filename().string();
  if (is_left_over(entry.path()) || is_kept_config(name)) return true;
  if (name == "config.yaml" || name.starts_with("events.out.tfevents.")) return true;
  if (name == "trace.json" || name == "profile.txt") return true;  // of --profile, when the run has failed
  if (name == "metrics.jsonl") return entry.file_size(error) == 0 && !error;
  if (name == "checkpoints") return fs::is_empty(entry.path(), error) && !error;
  if (name == "summary.json") return summary_has_no_step(entry.path());
  return name == "status.json.part" || (name == "status.json" && made_no_step(entry.path()));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_file_error("create the folder", folder, error.value());
}

// Replaces all but plain ASCII letters, digits, '.', '_' and '-': an environment's name may hold a slash.
std::string file_name_of(std::string_view name) {
  std::string text(name);
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  std::replace_if(
      text.begin(), text.end(), [&](char c) { return !is_fine(c); }, '_');
  return text;
}

std::string time_text(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local)};
}

// A run appends to these files or writes over them; all others are replaced whole. Where somebody else made the folder,
// they could be links to files of the user's.
void require_no_links(const fs::path& folder) {
  for (const char* name : {RunLock::kFileName, "metrics.jsonl", "rollouts.jsonl", "log.txt", "status.json.part"}) {
    std::error_code ignored;
    if (!fs::is_symlink(folder / name, ignored)) continue;
    throw ConfigError(concat((folder / name).string(),
                             " is a symbolic link, and a run writes into its own folder only: ",
                             "put the file itself there, or remove the link"));
  }
}

[[noreturn]] void refuse_run(const fs::path& folder) {
  throw ConfigError(concat(folder.string(), " holds a run already, and a run is never overwritten; go on with it by `",
                           program_name(), " resume ", folder.string(),
                           "` (or --resume auto), or choose another folder with --run-dir"));
}

std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  return size > 0 ? concat("process ", std::string(text.data(), static_cast<std::size_t>(size))) : "another process";
}

// For the message of RunLock only, so nothing depends on whether it can be written.
void write_holder(int descriptor) {
  const std::string text = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

RunLock::RunLock(const fs::path& folder)
    : file_(open_regular("write to the run folder: create", folder / kFileName, O_RDWR | O_CREAT)),
      identity_(FileIdentity::of(file_)) {
  const fs::path file = folder / kFileName;
  // is_held() takes a shared lock for an instant; one such look must not refuse a run.
  constexpr int kTries = 5;
  int reason = EWOULDBLOCK;
  for (int i = 0; i < kTries && reason == EWOULDBLOCK; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      write_holder(file_.get());
      return;
    }
    reason = errno;
  }
  if (reason != EWOULDBLOCK) throw_file_error("lock", file, reason);
  throw ConfigError(concat("the run folder ", folder.string(), " is in use by ", holder(file_.get()),
                           "; wait for it or end it, or choose another folder with --run-dir"));
}

bool RunLock::is_held(const fs::path& folder) {
  // Another kind of file under this name is nobody's lock; opening a pipe would wait.
  const Descriptor file(::open((folder / kFileName).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  // A shared lock does not disturb other lookers. It ends when the descriptor is closed on return.
  return file.is_open() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool RunLock::is_at(const fs::path& file) const {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0) return FileIdentity{status.st_dev, status.st_ino} == identity_;
  // ESTALE: removed on another host. Any other failure says nothing about the file.
  return errno != ENOENT && errno != ENOTDIR && errno != ESTALE;
}

// The plan: a path that does not exist or is no folder is answered at once. With a config.yaml the folder is a run,
// unless every file is one that a run has before its first update. Without one it is free if it has only what a killed
// start leaves behind.
FolderContent content_of(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return FolderContent::kNothing;
  if (error) throw_file_error("look at", folder, error.value());
  if (status.type() != fs::file_type::directory) return FolderContent::kElse;
  const bool has_config = fs::exists(RunPaths{folder}.config(), error);
  fs::directory_iterator files(folder, error);
  // A folder that may be entered but not listed holds a run all the same.
  if (error && has_config) return FolderContent::kRun;
  if (error) throw_file_error("look into", folder, error.value());
  if (has_config) {
    const bool is_ours = fs::exists(folder / RunLock::kFileName, error);  // what every run makes first
    return is_ours && std::all_of(begin(files), end(files), is_of_unbegun) ? FolderContent::kUnbegun
                                                                           : FolderContent::kRun;
  }
  const bool is_free =
      std::all_of(begin(files), end(files), [](const auto& entry) { return is_left_over(entry.path()); });
  return is_free ? FolderContent::kFree : FolderContent::kElse;
}

bool holds_run(const fs::path& folder) {
  const FolderContent content = content_of(folder);
  return content == FolderContent::kRun || content == FolderContent::kUnbegun;
}

RunPaths find_run(const fs::path& folder) {
  switch (content_of(folder)) {
    case FolderContent::kUnbegun:
    case FolderContent::kRun:
      return {folder};
    case FolderContent::kNothing:
      throw ConfigError(
          concat("there is no run folder ", folder.string(), "; runs lie in runs/ unless --run-dir says otherwise"));
    case FolderContent::kFree:
      throw ConfigError(concat(folder.string(), " holds no run yet: no config.yaml was written; start one with `",
                               program_name(), " train --run-dir ", folder.string(), "`"));
    case FolderContent::kElse:
      break;
  }
  const std::vector<RunPaths> seeds = seed_runs(folder);
  throw ConfigError(concat(
      folder.string(), " is no run folder: it has no config.yaml",
      seeds.empty() ? ""
                    : concat("; it holds the runs of --seeds, name one of them, as ", seeds.front().folder.string())));
}

fs::path new_run_path(const fs::path& parent, std::string_view env, std::string_view algo,
                      std::chrono::system_clock::time_point now) {
  const std::string name = concat(file_name_of(env), "-", file_name_of(algo), "-", time_text(now));
  // Two runs that start in one second get different names, unless they look at the same moment; the lock then decides.
  fs::path path = parent / name;
  std::error_code ignored;
  for (int number = 2; fs::exists(path, ignored); ++number) path = parent / concat(name, "-", number);
  return path;
}

void require_free(const fs::path& folder) {
  const FolderContent before = content_of(folder);
  if (before == FolderContent::kRun) refuse_run(folder);
  if (std::error_code ignored; before == FolderContent::kElse && !fs::is_directory(folder, ignored)) {
    throw ConfigError(concat(folder.string(), " is a file; choose a new or an empty folder with --run-dir"));
  }
  if (before == FolderContent::kElse) {
    throw ConfigError(
        concat(folder.string(), " holds files that belong to no run; choose a new or an empty folder with --run-dir"));
  }
}

// The plan: look, lock, look again, keep the settings of a run that never began, then write config.yaml, from which on
// the folder holds a run. Checks come before the lock so that a wrong folder gets no lock file.
RunFolder RunFolder::create(const fs::path& folder, std::string_view config) {
  require_free(folder);
  make_folder(folder);
  require_no_links(folder);
  RunLock lock(folder);
  // Another process may have begun a run between the look and the lock.
  if (content_of(folder) == FolderContent::kRun) refuse_run(folder);
  RunFolder run({folder, fs::current_path()}, std::move(lock));
  run.keep_unbegun(config);
  // First: a folder of a process that was killed here is free to be used again only as long as nothing else is in it.
  run.write_config(config);
  make_folder(run.paths_.checkpoints());
  return run;
}

RunFolder RunFolder::open(const fs::path& folder) {
  RunPaths paths = find_run(folder);
  paths.base = fs::current_path();
  require_no_links(folder);
  RunLock lock(folder);
  return {std::move(paths), std::move(lock)};
}

// A copy, before the new one takes its place: whenever this process ends, the folder is one that can be used again.
void RunFolder::keep_unbegun(std::string_view config) {
  std::error_code ignored;
  if (!fs::exists(paths_.config(), ignored)) return;
  remark_ = concat(paths_.folder.string(), " held a run that ended before its first update; this one takes its place");
  fs::remove(paths_.summary(), ignored);  // the log tells how that one ended
  const std::string earlier = read_file(paths_.config());
  if (earlier == config) return;
  int number = 1;
  while (fs::exists(kept_config(paths_.place(), number), ignored)) ++number;
  write_file(kept_config(paths_.place(), number), earlier);
  remark_ += concat("; its settings are in ", kept_config(paths_.folder, number).filename().string());
}

void RunFolder::write_config(std::string_view config) { write_file(paths_.config(), config); }

void RunFolder::require_in_place() const {
  if (is_in_place()) return;
  throw RunError(concat("the run folder ", paths_.folder.string(), " was removed or replaced while the run trained; ",
                        "where it was moved, `", program_name(),
                        " resume` with its new path goes on from its last checkpoint; otherwise train anew"));
}

}  // namespace tandem::app
