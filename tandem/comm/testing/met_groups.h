// comm/testing/met_groups.h: groups whose members meet as the ranks of a run do, through shared memory or over Gloo.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/host_group.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/comm/testing/member_threads.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {

inline std::unique_ptr<Group> join_host(int rank, int size, const std::string& key) {
  return make_host_group({.rank = rank, .size = size, .key = key, .limits = within(std::chrono::minutes(1))});
}

/// `port`: of a store on this host.
inline std::unique_ptr<Group> join_tcp(int rank, int size, int port) {
  const Limits limits = within(std::chrono::minutes(1));
  const auto store = connect_to_store(store_here(port), limits);
  const auto part = store->part("group");
  return make_tcp_group({.rank = rank, .size = size, .store = part.get(), .limits = limits});
}

enum class Medium { kSharedMemory, kTcp };

/// Runs `work` as each member of a group over `medium`, in a thread of its own: run_joined().
inline std::vector<std::string> run_over(Medium medium, int size, const std::function<void(Group&)>& work) {
  if (medium == Medium::kSharedMemory) {
    const std::string key = shm::unique_key("met-group");
    return run_joined(
        size, [&](int rank) { return join_host(rank, size, key); }, work);
  }
  const HostedStore hosted = host_store({});
  return run_joined(
      size, [&](int rank) { return join_tcp(rank, size, hosted.place.endpoint.port); }, work);
}

}  // namespace tandem::comm
