#include "tandem/app/train/record_failure.h"

#include <chrono>
#include <optional>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/run_log.h"
#include "tandem/app/run/run_status.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// Nothing when the folder is in use, or is no run's any more.
std::optional<RunFolder> take(const std::filesystem::path& folder) {
  try {
    return RunFolder::open(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

UpdateMetrics last_of(const RunPaths& paths) {
  const std::optional<std::int64_t> updates = last_update(paths.metrics());
  return updates ? read_last(paths.metrics(), *updates).value_or(UpdateMetrics{}) : UpdateMetrics{};
}

Summary failed_summary(const RunPaths& paths, const TrainOptions& options, const RunProgress& progress,
                       const std::string& why) {
  Summary summary = summary_of(options, progress, RunEnd::kFailed);
  // No run is left to ask for the count that `auto` resolved to.
  summary.shards = options.shards.value_or(0);
  summary.last = last_of(paths);
  summary.failure = why;
  return summary;
}

// `status`: nothing of a run that failed within its first half second.
void write_failure(const RunPaths& paths, const Summary& summary, std::optional<RunStatus> status) {
  write_file(paths.summary(), to_json(summary) + "\n");
  if (!status) return;
  status->state = name_of(RunEnd::kFailed);
  status->written = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  write_status(paths.status(), *status);
}

}  // namespace

void record_failure(const std::filesystem::path& folder, const TrainOptions& options, const RunProgress& progress,
                    const std::string& why) {
  const std::optional<RunFolder> held = take(folder);
  if (!held) return;
  const RunPaths& paths = held->paths();
  try {
    RunLog log(paths.log(), Severity::kInfo);
    try {
      const std::optional<RunStatus> status = read_status(paths.status());
      // A run that has ended wrote its own summary, which says more than this process knows.
      if (status && status->state != kRunning) return;
      log.error(why);
      write_failure(paths, failed_summary(paths, options, progress, why), status);
    } catch (const Error& error) {
      log.error(concat("that the run failed could not be written: ", error.what()));
    }
  } catch (const Error&) {
    return;  // nor to the log: the user is told of the failure that is under way
  }
}

}  // namespace tandem::app
