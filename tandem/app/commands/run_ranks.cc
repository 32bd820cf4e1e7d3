#include "tandem/app/commands/run_ranks.h"

#include <span>
#include <string>

#include "tandem/app/stop_signals.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/train.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"

namespace tandem::app {
namespace {

ExitCode follow_leader(const std::vector<Setting>& flags, const rl::EnvRegistry& environments,
                       const learner::Ranks& ranks) {
  const std::vector<std::byte> sent = ranks.from_leader({});
  if (sent.empty()) return ExitCode::kDone;
  const std::string text(reinterpret_cast<const char*>(sent.data()), sent.size());
  TrainOptions options = read_recorded(text, "the configuration of rank 0");
  for (const Setting& flag : flags) {
    if (flag.key == "devices") options.devices = flag.value.text;
  }
  const StopSignals signals;
  const RunEnd end = follow(options, with_plugins(environments, options), ranks, signals.token());
  return end == RunEnd::kFinished ? ExitCode::kDone : ExitCode::kStopped;
}

}  // namespace

ExitCode run_on_all_ranks(const std::vector<Setting>& flags, const rl::EnvRegistry& environments,
                          const std::function<ExitCode(const learner::Ranks&)>& lead) {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.world_size == 1) return lead(learner::Ranks());
  const comm::World world = comm::open_world(me, {});
  const learner::Ranks ranks(world.group, world.description);
  try {
    return ranks.leads() ? lead(ranks) : follow_leader(flags, environments, ranks);
  } catch (const std::exception& error) {
    ranks.abort(concat("rank ", ranks.rank(), " failed: ", error.what()));
    throw;
  }
}

void send_configuration(const learner::Ranks& ranks, const Configuration& configuration) {
  if (ranks.size() > 1) (void)ranks.from_leader(std::as_bytes(std::span(configuration.yaml)));
}

void dismiss(const learner::Ranks& ranks) {
  if (ranks.size() > 1) (void)ranks.from_leader({});
}

}  // namespace tandem::app
