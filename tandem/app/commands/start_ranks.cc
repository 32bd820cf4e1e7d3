#include "tandem/app/commands/start_ranks.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/faults.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/world.h"
#include "tandem/device/device_set.h"

namespace tandem::app {
namespace {

// Ranks of ranks would all meet under one launcher's variables.
void require_no_launcher(int count) {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.launcher == comm::Launcher::kSingleProcess) return;
  throw ConfigError(concat("--ranks ", count, ": this process is rank ", me.rank, " of ", me.world_size,
                           " already, by ", comm::name_of(me.launcher),
                           "; leave the flag out, or start the command without a launcher"));
}

// Refuses flags for worlds of several hosts: all ranks are on this one.
void require_words_for_one_host(const comm::WorldFlags& words) {
  const comm::WorldOptions options = comm::read_world_flags(words);
  if (options.hosts_by == comm::HostsBy::kRankList)
    throw ConfigError(concat("--hosts-by ", words.hosts_by, ": --ranks starts all ranks on this host; leave it out"));
}

}  // namespace

bool starts_ranks(const RanksAsked& asked) {
  if (asked.count == 1) require_no_launcher(1);
  return asked.count && *asked.count > 1;
}

void require_own_devices(const std::vector<c10::Device>& devices, int ranks) {
  if (ranks == 1) return;
  const auto shared = std::find_if(devices.begin(), devices.end(), [](c10::Device device) { return device.is_cuda(); });
  if (shared == devices.end()) return;
  throw ConfigError(
      concat("--ranks ", ranks, " --devices ", device::to_string(devices), ": all ", ranks, " ranks would share ",
             shared->str(),
             "; for several CUDA devices of this machine leave --ranks out and name them all (--devices "
             "cuda:0,1: a replica each), or give each rank its own under a launcher: tandem launch --ranks ",
             ranks, " -- sh -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec tandem train --devices cuda:0 ...'"));
}

ExitCode start_ranks(const RanksAsked& asked, const std::function<Survivors()>& check) {
  Faults faults;
  Survivors survivors = Survivors::kEnd;
  faults.collect([&] { require_no_launcher(*asked.count); });
  faults.collect([&] { require_words_for_one_host(asked.world); });
  faults.collect([&] { survivors = check(); });
  faults.raise();

  // /proc/self/exe names this very program, also when it was found by PATH or is another main() than ours.
  LaunchOptions options{.ranks = *asked.count, .command = {std::filesystem::read_symlink("/proc/self/exe").string()}};
  // A launcher that ends all ranks at the first death leaves no survivors.
  if (survivors != Survivors::kEnd) options.on_death = OnDeath::kContinue;
  options.command.insert(options.command.end(), asked.arguments.begin(), asked.arguments.end());
  return run_launch({std::move(options)});
}

}  // namespace tandem::app
