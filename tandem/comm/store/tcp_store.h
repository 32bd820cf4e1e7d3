// comm/tcp_store.h: the store of a run of several processes: a server in one of them, and connections to it. Both are
// LibTorch's (c10d::TCPStore), so a rank can also use the store that torchrun hosts.
//
// The server lives as long as the object that host_store() returned; when it is gone, the other ranks' calls fail.
// Whoever hosts must therefore be the last to go.
#pragma once
#include <chrono>
#include <memory>

#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/store/tcp_endpoint.h"

namespace tandem::comm {

/// How long the server may take to answer what needs no waiting. Longer means that its process was stopped, or that the
/// network is cut.
inline constexpr std::chrono::milliseconds kReplyLimit{10'000};

struct HostedStore {
  std::unique_ptr<Store> store;
  int port = 0;
};

/// Starts a server in this process, on `port` or on a free one when it is zero. Throws RunError when it is in use.
[[nodiscard]] HostedStore host_store(int port, Reach reach);

/// Connects to a server, which may still be starting. Throws DeadlineExceeded that says why nobody answered.
[[nodiscard]] std::unique_ptr<Store> connect_to_store(const Endpoint& endpoint, const Limits& limits,
                                                      std::chrono::milliseconds reply_limit = kReplyLimit);

/// The store of this rank's run, as its launcher arranged it: hosted by rank 0 or by the launcher, or in memory for a
/// single process. Keys of other runs, of earlier restarts of this one, and of other generations (groups that are built
/// anew in a process that lives on) are not seen. All ranks call it with the same generation.
[[nodiscard]] std::unique_ptr<Store> open_store(const LauncherEnvironment& me, int generation, const Limits& limits);

}  // namespace tandem::comm
