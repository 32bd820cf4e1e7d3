// A checkpoint is the parts of the run and a description: counters, config.yaml, and everything that may change the
// last bits of later numbers (LibTorch, instructions, type of device, way of computing gradients). A resume compares
// the description with its own process and says what differs.
#include "tandem/app/train/run_checkpoint.h"

#include <ATen/Version.h>
#include <c10/core/DeviceType.h>
#include <torch/version.h>

#include <span>
#include <utility>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/base/cpu.h"
#include "tandem/base/error.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/base/version.h"
#include "tandem/device/device_set.h"

namespace tandem::app {
namespace {

constexpr const char* kSolved = "solved_at_env_steps";
constexpr const char* kGradients = "gradients";  // what computes them: other loops round otherwise
constexpr const char* kDeviceType = "devices";
constexpr const char* kCpu = "cpu";            // such a type
constexpr const char* kReplicas = "replicas";  // metadata, under local_steps
constexpr const char* kInexact = "inexact";    // counter: 1 once a resume was inexact

std::string text_of(const model::CheckpointInfo& info, const std::string& key) {
  const auto found = info.metadata.find(key);
  return found == info.metadata.end() ? "" : found->second;
}

bool has_counter(const model::CheckpointInfo& info, const std::string& key) { return info.counters.count(key) > 0; }

std::string device_type(const TrainOptions& options) {
  return c10::DeviceTypeName(device::parse_device_set(options.devices).front().type(), true);
}

// Says what differs from where the checkpoint was written; empty when nothing does. Compares what the checkpoint
// recorded with this process; each difference can change the last bits of later numbers.
std::string moved(const model::CheckpointInfo& info, const TrainOptions& now, const rl::TrainingRun& run) {
  std::string remark;
  const auto compare = [&](const char* key, const std::string& here) {
    const std::string then = text_of(info, key);
    if (then == here) return;
    remark += concat(remark.empty() ? "" : "; ", key, " was ", then.empty() ? "an earlier version's" : then, " and is ",
                     here, " now");
  };
  compare("torch", torch_version());
  compare("cpu", instruction_sets(now));
  compare(kDeviceType, device_type(now));
  compare(kGradients, run.gradients_by());
  // Elsewhere the numbers do not depend on it.
  if (info.metadata.count(kReplicas) > 0 && now.strategy == sync::StrategyKind::kLocalSteps)
    compare(kReplicas, concat(run.replicas()));
  if (device_type(now) != kCpu && now.cuda_kernels == device::CudaKernels::kFastest)
    remark += concat(remark.empty() ? "" : "; ", "cuda_kernels: fastest has other last bits in each run");
  return remark;
}

// The parts are whole, so what does not fit is what the run was built from.
rl::RolloutWorker::Resumed load_parts(rl::TrainingRun& run, const model::Checkpoint& checkpoint) {
  try {
    return run.load([&](const std::string& part) { return checkpoint.read_part(part).tensors; });
  } catch (const rl::OutdatedCheckpoint& error) {
    throw CheckpointError(concat("this build cannot go on from ", checkpoint.folder().string(), ": ", error.what(),
                                 "\nEnd the run with the build that began it, or train anew in another folder; `tandem "
                                 "eval` and `tandem export` take its policy as before"));
  } catch (const CheckpointError& error) {
    throw CheckpointError(concat("the run as its config.yaml describes it cannot go on from ",
                                 checkpoint.folder().string(), ": ", error.what(),
                                 "\nSet config.yaml back to what it was; the checkpoint holds a copy, which "
                                 "`tandem inspect ",
                                 checkpoint.folder().string(), "` shows"));
  }
}

}  // namespace

std::string torch_version() { return TORCH_VERSION; }

std::string instruction_sets(const TrainOptions& options) {
  return concat(name_of(options.instructions.value_or(detect_instruction_set())), ", LibTorch ",
                at::get_cpu_capability());
}

Summary summary_of(const TrainOptions& options, const RunProgress& progress, RunEnd end) {
  return {.algo = options.algo,
          .env = options.env,
          .devices = options.devices,
          .seed = options.seed,
          .total_steps = options.total_steps,
          .end = end,
          .resumed = progress.resumed,
          .solved_at_env_steps = progress.solved_at_env_steps,
          .params_sha256 = {},
          .state_sha256 = {},
          .peak_rss_mb = peak_rss_mb(),
          .replicas = {},
          .torch = torch_version(),
          .cpu = instruction_sets(options)};
}

model::CheckpointInfo describe(const rl::TrainingRun& run, const TrainOptions& options, const RunProgress& progress,
                               const std::string& config, std::optional<double> score) {
  model::CheckpointInfo info{.kind = options.algo,
                             .tandem_version = kVersion,
                             .counters = {{"updates", run.updates()}, {"env_steps", run.env_steps()}},
                             .metadata = {{"config", config},
                                          {"torch", torch_version()},
                                          {"cpu", instruction_sets(options)},
                                          {kDeviceType, device_type(options)},
                                          {kGradients, run.gradients_by()}},
                             .score = score};
  if (options.strategy == sync::StrategyKind::kLocalSteps) info.metadata[kReplicas] = concat(run.replicas());
  // Counters that do not apply are left out rather than written as zero: a missing key is the answer.
  if (progress.solved_at_env_steps) info.counters[kSolved] = *progress.solved_at_env_steps;
  if (progress.resumed == ResumeExactness::kInexact) info.counters[kInexact] = 1;
  return info;
}

std::filesystem::path save_run(model::CheckpointStore& store, std::int64_t updates, const learner::StateAside& state,
                               const model::CheckpointInfo& info) {
  model::CheckpointWriter writer = store.begin(updates);
  for (const std::string& name : state.kept) writer.keep_part(name);
  for (const auto& [name, tensors] : state.parts) writer.write_part(name, tensors);
  writer.commit(info);
  return writer.folder();
}

std::string config_of(const model::Checkpoint& checkpoint) { return text_of(checkpoint.info(), "config"); }

LineSchedule line_schedule(const model::Checkpoint& checkpoint) {
  return read_recorded(config_of(checkpoint), checkpoint.folder().string()).log.lines();
}

std::string why_new_episodes(const std::string& env, rl::RolloutWorker::Resumed resumed) {
  if (resumed == rl::RolloutWorker::Resumed::kExactly) return "";
  if (resumed == rl::RolloutWorker::Resumed::kWithNewEpisodes)
    return concat(env, " cannot save its state, so new episodes were started");
  if (resumed == rl::RolloutWorker::Resumed::kOfAnotherKind)
    return "with env_restarts environments are saved in another way than without, so new episodes were started";
  return concat("a process of ", env, " was lost while its environments were saved, so new episodes were started");
}

// The kind is checked first, since the parts of another algorithm would only give a confusing error. Once a resume was
// inexact, the run stays so: the counter kInexact passes it on.
RunProgress load_run(rl::TrainingRun& run, const TrainOptions& options, const model::Checkpoint& checkpoint,
                     std::string& remark) {
  const model::CheckpointInfo& info = checkpoint.info();
  if (info.kind != options.algo) {
    throw CheckpointError(
        concat(checkpoint.folder().string(), " is a checkpoint of '", info.kind, "', not of '", options.algo, "'"));
  }
  const auto resumed = load_parts(run, checkpoint);
  remark = moved(info, options, run);
  const std::string lost = why_new_episodes(run.spec().id, resumed);
  if (!lost.empty()) remark += concat(remark.empty() ? "" : "; ", lost);
  const std::string why = run.why_numbers_differ();
  if (!why.empty()) remark += concat(remark.empty() ? "" : "; ", why);
  RunProgress progress{.solved_at_env_steps = {}, .resumed = ResumeExactness::kExact};
  if (has_counter(info, kSolved)) progress.solved_at_env_steps = info.counters.at(kSolved);
  if (!remark.empty() || has_counter(info, kInexact)) progress.resumed = ResumeExactness::kInexact;
  return progress;
}

std::string text_from(const learner::Ranks& ranks, int root, const std::string& roots) {
  const std::vector<std::byte> bytes = ranks.from(root, std::as_bytes(std::span(roots)));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Compares counters of all ranks first, and moves tensors only when the ranks differ, which is rare.
void share_newest(const learner::Ranks& ranks, KeptState& kept) {
  std::vector<double> mine{static_cast<double>(kept.updates)};
  learner::append_struct(kept.progress, mine);
  const std::vector<std::vector<double>> all = ranks.gather(mine);
  std::size_t newest = 0;
  bool differ = false;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    differ = differ || all[rank][0] != all[0][0];
    // The lowest rank wins a tie, so all ranks choose the same root.
    if (all[rank][0] > all[newest][0]) newest = rank;
  }
  const std::vector<double>& its = all[newest];
  if (its[0] < 0) throw RunError("none of the ranks that are left has the state of any update; begin anew");
  // A copy of what this rank gives: should another die meanwhile, it is needed in the next round.
  if (differ) {
    learner::StateParts parts = learner::parts_from(ranks, static_cast<int>(newest), kept.parts);
    kept.line = text_from(ranks, static_cast<int>(newest), kept.line);
    kept.parts = std::move(parts);
  }
  kept.updates = static_cast<std::int64_t>(its[0]);
  std::span<const double> progress = std::span(its).subspan(1);
  kept.progress = learner::take_struct<RunProgress>(progress);
}

bool is_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / model::kManifestFile, ignored);
}

model::Checkpoint find_checkpoint(const std::filesystem::path& path) {
  if (is_checkpoint(path)) {
    // A named checkpoint is verified here; CheckpointStore::latest() has verified the newest one of a run.
    model::Checkpoint checkpoint = model::Checkpoint::open(path);
    checkpoint.verify();
    return checkpoint;
  }
  // The policies that were evaluated best while the run trained.
  const std::filesystem::path plain = path.has_filename() ? path : path.parent_path();
  if (plain == RunPaths{plain.parent_path()}.best() && holds_run(plain.parent_path())) {
    if (std::optional<model::Checkpoint> best = model::CheckpointStore(plain).latest()) return *std::move(best);
    throw ConfigError(concat(path.string(), " has no policy yet: the run was not evaluated while it trained"));
  }
  if (!holds_run(path)) {
    const bool is_checkpoints = holds_run(path.parent_path());
    throw ConfigError(
        concat(path.string(), " is neither a run folder (it has no config.yaml) nor a checkpoint (it has no ",
               model::kManifestFile, ")", is_checkpoints ? concat("; its run is ", path.parent_path().string()) : ""));
  }
  std::optional<model::Checkpoint> newest = model::CheckpointStore(RunPaths{path}.checkpoints()).latest();
  if (!newest) throw ConfigError(concat("the run ", path.string(), " has no checkpoint yet"));
  return *std::move(newest);
}

TrainOptions options_of(const model::Checkpoint& checkpoint) {
  const std::string config = config_of(checkpoint);
  if (config.empty()) {
    throw CheckpointError(
        concat(checkpoint.folder().string(),
               " does not hold the configuration of its run; it was written by another program (kind '",
               checkpoint.info().kind, "')"));
  }
  return read_recorded(config, (checkpoint.folder() / model::kManifestFile).string());
}

}  // namespace tandem::app
