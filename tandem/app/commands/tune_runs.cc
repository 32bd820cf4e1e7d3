// Each measured run is a real training in a folder of its own, which the next one replaces. Its first update is not
// counted: it pays for memory and caches that later updates find.
#include "tandem/app/commands/tune_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tandem/app/commands/run_session.h"
#include "tandem/app/config/algorithm.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/train.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::int64_t kLeastUpdates = 5;  // the first is not measured

// Keeps the numbers of every update instead of showing them.
class CollectedProgress final : public Progress {
 public:
  CollectedProgress() : Progress(Clock::duration::zero()) {}
  /// After the run.
  [[nodiscard]] const std::vector<UpdateMetrics>& updates() const { return updates_; }

 private:
  void show(const UpdateMetrics& metrics, const ProgressGoal&, double) override { updates_.push_back(metrics); }
  void print(std::string_view) override {}
  void end_line() override {}

  std::vector<UpdateMetrics> updates_;
};

}  // namespace

std::int64_t steps_of_update(const TrainOptions& options) {
  const BatchSize batch = algorithm_of(options).batch_size(options);
  return batch.env_steps * batch.per_update;
}

TuneFolder::TuneFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tandem-tune-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw RunError(concat("no folder for the runs can be made at ", name, "; TMPDIR says where another may be"));
  path_ = name;
}

// A file that comes into the folder while it is emptied keeps the folder from being removed.
void TuneFolder::remove() const {
  constexpr int kTries = 100;
  std::error_code error;
  for (int i = 0; i < kTries; ++i) {
    std::filesystem::remove_all(path_, error);
    if (!error) return;
  }
}

std::optional<RunSample> TuneRuns::run(const Configuration& configuration, std::int64_t env_steps) const {
  Configuration once = configuration;
  once.options.total_steps = std::max(env_steps, kLeastUpdates * steps_of_update(once.options));
  const std::filesystem::path path = folder_.path() / "run";
  // RunFolder::create() refuses a folder that holds a run.
  std::filesystem::remove_all(path);
  RunFolder folder = RunFolder::create(path, once.yaml);
  RunLog log(folder.paths().log(), Severity::kInfo);
  CollectedProgress progress;
  // There are no ranks that could be asked to meet anew.
  const Trained trained = train(once, with_plugins(environments_, once.options), std::nullopt, learner::Ranks(),
                                {.folder = folder,
                                 .progress = progress,
                                 .log = log,
                                 .signals = signals_,
                                 .end_process =
                                     [this](const HungThread& error) {
                                       folder_.remove();
                                       end_process(error);
                                     }})
                              .value();
  if (trained.summary.end != RunEnd::kFinished) return std::nullopt;
  RunSample sample = sample_of(progress.updates());
  sample.state_sha256 = trained.summary.state_sha256;
  return sample;
}

std::optional<std::int64_t> TuneRuns::steps_in(const Configuration& configuration, double seconds) const {
  const std::int64_t of_update = steps_of_update(configuration.options);
  std::int64_t env_steps = kLeastUpdates * of_update;
  while (true) {
    const std::optional<RunSample> sample = run(configuration, env_steps);
    if (!sample) return std::nullopt;
    const double updates = sample->env_steps_per_s * seconds / static_cast<double>(of_update);
    // Rounded up to whole updates, which is how runs end.
    const std::int64_t wanted = of_update * std::max(kLeastUpdates, static_cast<std::int64_t>(std::ceil(updates)));
    // A run of a quarter of the time is long enough to tell.
    if (wanted <= 4 * env_steps) return wanted;
    // At most eight times longer each time: a first rate from a very short run may be far too high.
    env_steps = std::min(wanted / 4, 8 * env_steps);
  }
}

}  // namespace tandem::app
