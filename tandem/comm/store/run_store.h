// comm/store/run_store.h: the store of a run of several processes: a server in one of them, and connections to it.
//
// Who may use it: within a host, processes of the same user, over a socket that no other host reaches; between hosts,
// processes that prove that they know the run's secret (net/greeting.h). With one, what travels between hosts is
// encrypted (net/tls.h).
//
// Ownership: the server lives as long as the object that host_store() returned, and its parts. When it is gone, the
// other processes' calls fail, so the process that hosts the store must be the last to end. Threads, blocking and
// errors: as store.h; the functions here may be called from any thread.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/store.h"
#include "tandem/net/sockets.h"

namespace tandem::comm {

/// The time in which the server must answer a call. If it takes longer, the server's process was stopped or the network
/// is cut, and the connection is lost.
inline constexpr std::chrono::milliseconds kReplyLimit{10'000};

/// Where a store is, and what proves that a process belongs to its run.
struct StorePlace {
  Endpoint endpoint{"127.0.0.1", 0};  // within a host the port is a number in the name of a socket, and no TCP port
  net::Reach reach = net::Reach::kThisHost;
  std::string secret{};
  net::Traffic traffic = net::Traffic::kOpen;  // of what members exchange beside the store, which has secrets in it
};

/// The place of a store that another process of this host and user has hosted there.
[[nodiscard]] inline StorePlace store_here(int port) { return {.endpoint = {"127.0.0.1", port}}; }

/// A store of this process, and where others find it.
struct HostedStore {
  std::unique_ptr<Store> store;
  StorePlace place;
};

/// Starts a server in this process, at a free port if the place's port is zero. Throws RunError when it is in use.
[[nodiscard]] HostedStore host_store(const StorePlace& place);

/// Connects to a server, which may still be starting. Waits until `limits`; DeadlineExceeded says why no server
/// answered. Throws ConfigError when the server's secret is another one.
[[nodiscard]] std::unique_ptr<Store> connect_to_store(const StorePlace& place, const Limits& limits,
                                                      std::chrono::milliseconds reply_limit = kReplyLimit);

/// Where the store of this rank's run is. A host name is looked up until `limits`. Throws ConfigError when the store is
/// on another host, and the ranks have no secret.
[[nodiscard]] StorePlace place_of_store(const LauncherEnvironment& me, const Limits& limits);

/// The name of a run's part of its store. `restarts`: how often the launcher started the run again.
[[nodiscard]] std::string run_part(const std::string& run_id, int restarts, int generation);

/// Opens the store of this rank's run as the launcher has arranged it: hosted by rank 0 or by the launcher, or in
/// memory for a single process. All ranks call it with the same generation. Keys of other runs, of earlier restarts of
/// this run and of other generations (earlier groups of the same processes) are not visible: all keys begin with run
/// id, restart count and generation.
[[nodiscard]] std::unique_ptr<Store> open_store(const LauncherEnvironment& me, int generation, const Limits& limits);

}  // namespace tandem::comm
