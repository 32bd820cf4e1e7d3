#include "bench/comm/rank_processes.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "bench/forked_ranks.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/comm/store/run_store.h"

namespace tandem::bench {
namespace {

// Each element tells rank and place, small enough for the sum to be exact in float32.
bool sums_exactly(comm::Group& group, const at::Tensor& flat) {
  auto* element = flat.data_ptr<float>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) element[i] = static_cast<float>((group.rank() + 1) * (i % 1000 + 1));
  group.start_all_reduce(flat).wait(within_a_minute());
  const int sum_of_ranks = group.size() * (group.size() + 1) / 2;
  const auto ranks = static_cast<float>(sum_of_ranks);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    if (element[i] != ranks * static_cast<float>(i % 1000 + 1)) return false;
  }
  return true;
}

std::vector<double> time_sums(comm::Group& group, const at::Tensor& flat, int count) {
  std::vector<double> mine(static_cast<std::size_t>(count));
  for (double& seconds : mine) {
    group.barrier(within_a_minute());
    const Clock::time_point start = Clock::now();
    group.start_all_reduce(flat).wait(within_a_minute());
    seconds = seconds_since(start);
  }
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(mine, all, within_a_minute());
  for (std::size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::max(mine[i % mine.size()], all[i]);
  return mine;
}

// What the ranks of one group share.
struct ProcessWorld {
  Transport transport{};
  int size = 0;
  std::string key;  // of a host group
  int port = 0;     // where rank 0 hosts a store for TCP
  std::int64_t bytes = 0;
};

std::unique_ptr<comm::Group> join(const ProcessWorld& world, int rank, std::unique_ptr<comm::Store>& store) {
  const Limits limits = within_a_minute();
  if (world.transport == Transport::kHost) {
    return comm::make_host_group({.rank = rank, .size = world.size, .key = world.key, .limits = limits});
  }
  store = rank == 0 ? comm::host_store(comm::store_here(world.port)).store
                    : comm::connect_to_store(comm::store_here(world.port), limits);
  return comm::make_tcp_group({.rank = rank, .size = world.size, .store = store.get(), .limits = limits});
}

std::vector<double> work(const ProcessWorld& world, int rank, double seconds, Size size) {
  std::unique_ptr<comm::Store> store;
  const auto group = join(world, rank, store);
  const std::int64_t bytes = world.bytes;
  const at::Tensor flat = group->allocate(bytes / static_cast<std::int64_t>(sizeof(float)), at::kFloat, at::kCPU);
  if (!sums_exactly(*group, flat)) throw RunError("wrong sums");
  std::memset(flat.data_ptr(), 0, flat.nbytes());  // sums of zeros stay zeros
  std::vector<double> times = time_sums(*group, flat, 20);
  if (size == Size::kFull) times = time_sums(*group, flat, repetitions(Samples(times).quantile(0.5), seconds));
  group->barrier(within_a_minute());
  return times;
}

}  // namespace

std::vector<double> time_between_processes(Transport transport, int ranks, std::int64_t bytes, double seconds,
                                           Size size) {
  static int groups = 0;
  const ProcessWorld world{.transport = transport,
                           .size = ranks,
                           .key = concat("bench/", ::getpid(), "/", ++groups),
                           .port = 1000 * ::getpid() + groups,
                           .bytes = bytes};
  return run_forked(concat("sums of ", bytes, " bytes"), ranks,
                    [&](int rank) { return work(world, rank, seconds, size); })
      .front();
}

}  // namespace tandem::bench
