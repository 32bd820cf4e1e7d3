// comm/world.h: opens the world of a run: the group of all ranks, the store in which they met, and which ranks share a
// host. It corresponds to MPI_COMM_WORLD and to init_process_group() of torch.distributed.
//
//   const comm::LauncherEnvironment me = comm::launcher_environment();
//   comm::World world = comm::open_world(me, {});
//   log(world.description);
//   world.group->barrier(limits);
//
// Ranks of one host exchange through shared memory, hosts through c10d. Backend::kAuto takes shared memory where that
// changes no bit of any sum, and the description says what was chosen and why. A choice that cannot be honoured is an
// error.
//
// A rank of `tandem launch` that ends while it has a World has failed, also with exit code 0: a library may have called
// exit(). So destroy it before the end of main(); a World that is leaked, or alive in exit(), counts as that.
//
// Threads: open_world() from any, once per rank and generation; a World belongs to one thread. Ownership: rank 0's
// World hosts the store unless the launcher does, so rank 0 destroys its World last. Blocking and errors: see
// open_world().
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/last_word.h"
#include "tandem/comm/departure.h"
#include "tandem/comm/group.h"
#include "tandem/comm/host_map.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

enum class Backend {
  kAuto,  // shared memory within a host, TCP between hosts
  kHost,  // shared memory; all ranks must be on one host
  kTcp,   // TCP between all ranks, also of one host
  kNccl,  // NCCL between all ranks, each with a CUDA device of its own; what is in host memory goes by TCP
};

/// Returns "auto", "host", "tcp" or "nccl".
[[nodiscard]] const char* name_of(Backend backend);

/// How the ranks know which of them share a host.
enum class HostsBy {
  kKey,       // by their HostKey (host_map.h). Ranks that cannot share memory after all fail when they meet
  kRankList,  // by WorldOptions::hosts
};

struct WorldOptions {
  Backend backend = Backend::kAuto;
  HostsBy hosts_by = HostsBy::kKey;
  std::vector<std::vector<int>> hosts = {};    // kRankList: the ranks of each host
  std::string network = {};                    // for TCP: see NetworkGroupOptions::network
  int device = -1;                             // kNccl: index of this rank's CUDA device; -1: its local rank
  net::Traffic traffic = net::Traffic::kOpen;  // of what ranks exchange over TCP, where they are on several hosts
  bool is_insecure = false;  // ranks of several hosts need no run secret: nobody else is on the network
  int generation = 0;        // another number for each world that a process opens; same on all ranks
  Limits limits = {.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}};  // of the wait for all ranks
};

/// How a world's group exchanges. kHostThenTcp: a layered group, of shared memory within each host and TCP between
/// the hosts' first ranks.
enum class GroupKind { kSingle, kHost, kTcp, kNccl, kHostThenTcp };

struct World {
  int rank = 0, size = 1;
  int local_rank = 0;  // among the ranks of this host
  HostMap hosts;
  GroupKind kind = GroupKind::kSingle;
  std::string description;         // for the log: this rank, all hosts, the kind of group and why it was chosen
  std::unique_ptr<Store> store;    // has only the keys of this run, restart and generation
  std::shared_ptr<Group> group{};  // the group of all ranks
  int boards = 0;                  // counts calls of open_board() (world_board.h)
  Departure departure{};           // tells the others why this rank leaves, when an exception destroys the world
  LastWord last_word{};            // tells `tandem launch` that this rank is done with the world
};

/// Makes the groups across a network. Tests replace it, to run without sockets.
struct NetworkGroups {
  using Make = std::function<std::unique_ptr<Group>(const NetworkGroupOptions& options)>;
  using MakeOnDevice = std::function<std::unique_ptr<Group>(const NetworkGroupOptions& options, int device_index)>;
  Make tcp = make_tcp_group;
  MakeOnDevice nccl = make_nccl_group;
};

/// This rank's environment, with what the options say of it: where no secret is needed.
[[nodiscard]] LauncherEnvironment with_wishes(LauncherEnvironment me, const WorldOptions& options);

/// Waits until all ranks have called it, each with the same options; only `network` and `device` may differ.
/// Throws ConfigError for a choice that cannot be honoured, when ranks ask for different things, or when they are on
/// several hosts without a run secret (TANDEM_RUN_SECRET) or with different ones; RunError when the
/// store's port is in use; DeadlineExceeded, which names the missing ranks. A rank that fails writes its failure to the
/// store, and DeadlineExceeded on other ranks includes the first such failure.
[[nodiscard]] World open_world(const LauncherEnvironment& me, const WorldOptions& options,
                               const NetworkGroups& network = {});

/// Opens a second world of the same ranks, with a group of its own, for a user that exchanges beside the first group
/// (SyncBatchNorm, say). The ranks meet in the store of `first`, which all of them must still have. Each call takes
/// another generation.
[[nodiscard]] World open_world_beside(World& first, const LauncherEnvironment& me, const WorldOptions& options = {});

}  // namespace tandem::comm
