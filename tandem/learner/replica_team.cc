#include "tandem/learner/replica_team.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "tandem/comm/local_group.h"
#include "tandem/metrics/process_stats.h"

namespace tandem::learner {
namespace {

// Note [The first matrix product]
// MKL looks at the CPU in the first product of a process, and the product of another thread that comes meanwhile can
// run on other kernels, which round differently. With eight threads that start together, one got other bits in 5 of 250
// processes, and in none of 370 after a product on one thread. So the first ones are made while no replica computes.
void choose_matrix_kernels() {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor some = at::ones({2, 2}, dtype);
    (void)at::mm(some, some);
  }
}

}  // namespace

struct ReplicaTeam::Seat {
  Seat(const sync::Placement& placement, const TeamOptions& options, const BuildModule& build, comm::Group& group)
      : replica(placement, build(placement), options.run_seed, options.optimizer, options.flat),
        strategy(replica, group, options.replicated),
        learner(replica, strategy, {.run_seed = options.run_seed, .rng = options.rng, .residence = options.residence}),
        shard_sum(group, options.patience, {}),
        member{replica, strategy, learner, shard_sum, group} {}

  sync::Replica replica;
  sync::Replicated strategy;
  Learner learner;
  comm::GroupShardSum shard_sum;
  Member member;
  double cpu_seconds = 0;
};

ReplicaTeam::ReplicaTeam(const std::vector<sync::Placement>& placements, const TeamOptions& options,
                         const BuildModule& build)
    : options_(options),
      groups_(comm::make_local_group(static_cast<int>(placements.size()))),
      members_(placements.size()),
      threads_("replica", static_cast<int>(placements.size())) {
  choose_matrix_kernels();
  threads_.run([&](int replica) {
    guarded(replica, [&] {
      const auto index = static_cast<std::size_t>(replica);
      at::set_num_threads(1);  // one intra-op thread a replica: what a sum's order depends on
      members_[index] = std::make_unique<Seat>(placements[index], options_, build, *groups_[index]);
      members_[index]->strategy.begin({.deadline = Deadline::after(options_.patience), .stop = {}});
    });
  });
}

ReplicaTeam::~ReplicaTeam() = default;

void ReplicaTeam::run(const std::function<void(Member&)>& work) {
  threads_.run([&](int replica) {
    Seat& seat = *members_[static_cast<std::size_t>(replica)];
    const double before = thread_cpu_seconds();
    guarded(replica, [&] { work(seat.member); });
    seat.cpu_seconds += thread_cpu_seconds() - before;
  });
}

Member ReplicaTeam::member(int replica) { return members_[static_cast<std::size_t>(replica)]->member; }

double ReplicaTeam::cpu_seconds(int replica) const { return members_[static_cast<std::size_t>(replica)]->cpu_seconds; }

// A replica that fails ends the waits of the others.
void ReplicaTeam::guarded(int replica, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    groups_[static_cast<std::size_t>(replica)]->abort(error.what());
    throw;
  }
}

}  // namespace tandem::learner
