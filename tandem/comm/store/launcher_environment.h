// comm/store/launcher_environment.h: reads from the environment which rank of which run this process is, as its
// launcher has set it.
//
//   const comm::LauncherEnvironment me = comm::launcher_environment();  // in main()
//   log(describe(me));
//
// launcher_environment() is the only function of the library that reads the environment; all others take the struct.
// Several launchers may have set variables, as when torchrun runs within a Slurm job. The innermost launcher counts, in
// this order: tandem launch, torchrun, Open MPI, RANK and WORLD_SIZE set by hand, Slurm. Without any of them the
// process is a run of its own.
//
// Threads: launcher_environment() while no other thread changes the environment; the rest from any. Nothing here
// blocks, except on the file that TANDEM_RUN_SECRET_FILE names. Errors: ConfigError with all faults; each names the
// variable, its value, and what is expected.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/net/sockets.h"

namespace tandem::comm {

enum class Launcher { kSingleProcess, kTandem, kTorchrun, kOpenMpi, kSlurm, kVariables };

/// Returns "tandem launch", "torchrun", ...
[[nodiscard]] const char* name_of(Launcher launcher);

/// The launcher's action on the other ranks when one dies.
enum class OnDeath {
  kUnknown,     // the launcher does not say
  kEndsAll,     // the launcher ends all others, and perhaps starts all ranks again
  kLeavesThem,  // the others live on
};

/// The address where the store of a run listens.
struct Endpoint {
  std::string address;
  int port = 0;
};

struct LauncherEnvironment {
  Launcher launcher = Launcher::kSingleProcess;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                  // among the ranks of this host; zero when the launcher does not say
  std::optional<int> local_size = {};  // the number of ranks of this host, if the launcher says it
  std::optional<int> hosts = {};       // how many hosts the ranks are on, if the launcher says it
  std::string host_name = {};
  Endpoint master = {};               // the store; empty for a single rank if the launcher does not say it
  bool launcher_hosts_store = false;  // if false, rank 0 hosts the store
  std::string run_id = {};            // the same on all ranks, another one for another run
  int restart_count = 0;              // how often the launcher started all ranks again
  int rank_restarts = 0;              // how often it started this rank alone again, while the others lived on
  OnDeath on_death = OnDeath::kUnknown;
  std::string secret = {};  // by which processes of different hosts know that they belong to one run; never shown
  net::Traffic traffic = net::Traffic::kOpen;  // of what ranks exchange over TCP; the store is encrypted at any rate
  bool is_insecure = false;    // the user says that nobody else reaches the network, and no secret is needed
  std::string last_word = {};  // where this process says that its work is over (base/last_word.h); empty: nowhere
};

/// Returns the value of an environment variable, or nothing when it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the environment of this process and the name of its host. Throws ConfigError with all faults that it finds.
[[nodiscard]] LauncherEnvironment launcher_environment();

/// Reads any source of variables, and leaves host_name empty. A variable that is empty counts as not set.
[[nodiscard]] LauncherEnvironment read_launcher_environment(const Lookup& lookup);

/// Whether the launcher says that some ranks are on other hosts than this one.
[[nodiscard]] inline bool has_other_hosts(const LauncherEnvironment& me) {
  return me.hosts.value_or(1) > 1 || me.local_size.value_or(me.world_size) < me.world_size;
}

/// Says why ranks cannot count on surviving the death of another one, and what would change that; empty where they can.
[[nodiscard]] std::string why_none_survive(const LauncherEnvironment& environment);

/// One line for the log: "rank 1 of 4 (local rank 1 of 2) on gpu-a, by torchrun; store at 10.0.0.1:29500, hosted by
/// ...".
[[nodiscard]] std::string describe(const LauncherEnvironment& environment);

/// Returns the first host of a list as Slurm writes it: "node07" for "node[07-09,12],login1", "rack1-n3" for
/// "rack[1-2]-n[3,5]". Nothing when the text is no such list.
[[nodiscard]] std::optional<std::string> first_host(std::string_view node_list);

}  // namespace tandem::comm
