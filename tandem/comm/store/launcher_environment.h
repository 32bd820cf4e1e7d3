// comm/launcher_environment.h: who this process is among the ranks of a run, as its launcher says in the environment.
//
//   const comm::LauncherEnvironment me = comm::launcher_environment();  // in main()
//   log(describe(me));
//
// launcher_environment() is the one function of the library that reads the environment; all else takes the struct.
// Several launchers may have left their traces, as when torchrun runs within a Slurm job. The innermost counts:
// tandem launch, then torchrun, Open MPI, RANK and WORLD_SIZE by themselves, Slurm, and else a single process.
//
// Threads: launcher_environment() while no other thread changes the environment; the rest from any.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::comm {

enum class Launcher { kSingleProcess, kTandem, kTorchrun, kOpenMpi, kSlurm, kVariables };

/// "tandem launch", "torchrun", ...
[[nodiscard]] const char* name_of(Launcher launcher);

/// What the launcher does with the other ranks when one dies.
enum class OnDeath {
  kUnknown,     // it does not say
  kEndsAll,     // they are ended, and perhaps all started again
  kLeavesThem,  // they live on
};

/// Where the store of a run listens.
struct Endpoint {
  std::string address;
  int port = 0;
};

struct LauncherEnvironment {
  Launcher launcher = Launcher::kSingleProcess;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;                  // among the ranks of this host; zero when the launcher does not say
  std::optional<int> local_size = {};  // ranks of this host, when the launcher says
  std::string host_name = {};
  Endpoint master = {};               // empty when world_size is 1 and nothing is said
  bool launcher_hosts_store = false;  // then no rank may; else rank 0 does
  std::string run_id = {};            // the same on all ranks, another one for another run
  int restart_count = 0;              // how often the launcher started all ranks again
  int rank_restarts = 0;              // how often it started this rank alone again, while the others lived on
  OnDeath on_death = OnDeath::kUnknown;
};

/// The value of an environment variable, or nothing when it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the environment of this process and the name of its host. Throws ConfigError with all faults that it finds.
[[nodiscard]] LauncherEnvironment launcher_environment();

/// The same from any source of variables, without the host's name. A variable that is empty counts as not set.
[[nodiscard]] LauncherEnvironment read_launcher_environment(const Lookup& lookup);

/// Why nobody may count on outliving the death of another rank, with what would let them; empty where they may.
[[nodiscard]] std::string why_none_survive(const LauncherEnvironment& environment);

/// For the log: "rank 1 of 4 (local rank 1 of 2) on gpu-a, by torchrun; store at 10.0.0.1:29500, which ...".
[[nodiscard]] std::string describe(const LauncherEnvironment& environment);

/// The first host of a list as Slurm writes it: "node[07-09,12],login1" gives "node07"; "rack[1-2]-n[3,5]" gives
/// "rack1-n3". Nothing when the text is no such list.
[[nodiscard]] std::optional<std::string> first_host(std::string_view node_list);

}  // namespace tandem::comm
