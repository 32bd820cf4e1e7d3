// comm/store/tcp_store.h: the store of a run of several processes: a server in one process, and connections to it. Both
// are LibTorch's (c10d::TCPStore), so a rank can also use the store that torchrun hosts.
//
// Ownership: the server lives as long as the object that host_store() returned. When it is gone, the other ranks' calls
// fail, so the process that hosts the store must be the last to end. Threads, blocking and errors: as store.h; the
// functions here may be called from any thread, and one after the other connects.
#pragma once
#include <chrono>
#include <memory>

#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/tcp_endpoint.h"

namespace tandem::comm {

/// The time in which the server must answer a call that needs no waiting. If it takes longer, the server's process was
/// stopped or the network is cut, and the connection is lost.
inline constexpr std::chrono::milliseconds kReplyLimit{10'000};

/// A connection to the server in this process, and the server's port.
struct HostedStore {
  std::unique_ptr<Store> store;
  int port = 0;
};

/// Starts a server in this process, on `port`, or on a free port if `port` is zero. Throws RunError when it is in use.
[[nodiscard]] HostedStore host_store(int port, Reach reach);

/// Connects to a server, which may still be starting. Waits until `limits`; DeadlineExceeded says why no server
/// answered.
[[nodiscard]] std::unique_ptr<Store> connect_to_store(const Endpoint& endpoint, const Limits& limits,
                                                      std::chrono::milliseconds reply_limit = kReplyLimit);

/// The name of a run's part of its store. `restarts`: how often the launcher started the run again.
[[nodiscard]] std::string run_part(const std::string& run_id, int restarts, int generation);

/// Opens the store of this rank's run as the launcher has arranged it: hosted by rank 0 or by the launcher, or in
/// memory for a single process. All ranks call it with the same generation. Keys of other runs, of earlier restarts of
/// this run and of other generations (earlier groups of the same processes) are not visible: all keys begin with run
/// id, restart count and generation.
[[nodiscard]] std::unique_ptr<Store> open_store(const LauncherEnvironment& me, int generation, const Limits& limits);

}  // namespace tandem::comm
