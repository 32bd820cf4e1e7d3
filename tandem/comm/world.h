// comm/world.h: all ranks of a run: the store where they met, which of them share a host, and the group of all.
//
//   const comm::LauncherEnvironment me = comm::launcher_environment();
//   comm::World world = comm::open_world(me, {});
//   log(world.description);
//   world.group->barrier(limits);
//
// Ranks of one host exchange through shared memory, hosts through c10d. `auto` takes shared memory where it can without
// changing a bit of any sum, and says what it took and why. A choice that cannot be honoured is an error.
//
// Threads: open_world() from any, once per rank and generation; a World belongs to one thread. The store is hosted by
// rank 0's World unless the launcher hosts it, so that one is the last to go.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/comm/host_map.h"
#include "tandem/comm/links/c10d_group.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

enum class Backend {
  kAuto,  // shared memory within a host, Gloo between hosts
  kHost,  // shared memory; all ranks must be on one host
  kGloo,  // Gloo between all ranks, also of one host
  kNccl,  // NCCL between all ranks, each with a CUDA device of its own; what is in host memory goes by Gloo
};

/// "auto", "host", "gloo", "nccl".
[[nodiscard]] const char* name_of(Backend backend);

/// How it is known which ranks share a host.
enum class HostsBy {
  kKey,       // what their systems say (host_map.h). That they really do shows when they meet
  kRankList,  // WorldOptions::hosts
};

struct WorldOptions {
  Backend backend = Backend::kAuto;
  HostsBy hosts_by = HostsBy::kKey;
  std::vector<std::vector<int>> hosts = {};  // kRankList: the ranks of each host
  std::string network = {};                  // for Gloo: an interface or an address of this host; empty: to the store
  int device = -1;                           // kNccl: index of this rank's CUDA device; -1: its local rank
  int generation = 0;                        // counts the worlds that this process opens one after the other
  Limits limits = {.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}};  // until all ranks have come
};

/// What the group of a world is made of.
enum class GroupKind { kSingle, kHost, kGloo, kNccl, kHostThenGloo };

struct World {
  int rank = 0, size = 1;
  int local_rank = 0;  // among the ranks of this host
  HostMap hosts;
  GroupKind kind = GroupKind::kSingle;
  std::string description;         // for the log: this rank, all hosts, the group, and why
  std::unique_ptr<Store> store;    // keys of this run and generation
  std::shared_ptr<Group> group{};  // of all ranks
  int boards = 0;                  // that were opened; see world_board.h
};

/// Make the groups across a network; tests put others in their place.
struct NetworkGroups {
  using Make = std::function<std::unique_ptr<Group>(const C10dGroupOptions& options)>;
  using MakeOnDevice = std::function<std::unique_ptr<Group>(const C10dGroupOptions& options, int device_index)>;
  Make gloo = make_gloo_group;
  MakeOnDevice nccl = make_nccl_group;
};

/// Waits until all ranks have come, each with the same options (the network may differ).
/// Throws ConfigError for a choice that cannot be honoured, or when ranks ask for different things; RunError when the
/// store's port is in use; DeadlineExceeded naming what is missing, and the first failure of another rank if it left
/// word. A rank that fails here leaves word in the store.
[[nodiscard]] World open_world(const LauncherEnvironment& me, const WorldOptions& options,
                               const NetworkGroups& network = {});

/// The same ranks once more, with a group of their own, for who exchanges beside the first one's group (SyncBatchNorm,
/// say). They meet through the store of `first`, so all ranks still have it; each call takes another generation.
[[nodiscard]] World open_world_beside(World& first, const LauncherEnvironment& me, const WorldOptions& options = {});

}  // namespace tandem::comm
