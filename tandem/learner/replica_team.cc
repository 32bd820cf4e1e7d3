#include "tandem/learner/replica_team.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/comm/layered_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/cores.h"
#include "tandem/device/one_core.h"

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

constexpr std::array kHeads{"replica", "offered", "accepted", "applied", "dropped", "waited ms"};

std::string row_of(const std::array<std::string, kHeads.size()>& cells) {
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) row += (i == 0 ? "" : "  ") + align_right(cells[i], i == 0 ? 7 : 9);
  return row + "\n";
}

// "3", or "2 to 4 (mean 3.1)" where steps differ.
std::string range_of(const sync::OverSteps& figure, std::int64_t steps) {
  if (figure.least == figure.most) return concat(figure.least);
  const double mean = std::round(10 * figure.sum / static_cast<double>(steps)) / 10;
  return concat(figure.least, " to ", figure.most, " (mean ", mean, ")");
}

// A module that was built on the CPU; one that lies there already stays as it is.
std::shared_ptr<torch::nn::Module> on_device(std::shared_ptr<torch::nn::Module> module, c10::Device device) {
  if (module && !device.is_cpu()) module->to(device);
  return module;
}

// Where each replica's thread may run. Memory lies in the node of the thread that first touches it, and a replica's
// thread makes all that it uses: parameters, gradients, environments, rollouts.
std::vector<std::vector<int>> nodes_for(const std::vector<sync::Placement>& placements) {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const bool is_on_cpu = std::ranges::all_of(placements, [](const auto& each) { return each.device.is_cpu(); });
  if (!is_on_cpu || ::sched_getaffinity(0, sizeof(bound), &bound) != 0) return {};
  return nodes_of_threads(static_cast<int>(placements.size()), cores_by_node(bound));
}

}  // namespace

struct ReplicaTeam::Seat {
  Seat(const sync::Placement& placement, const TeamOptions& options, const BuildModule& build, comm::Group& group,
       const std::stop_token& lost)
      : replica(placement, on_device(build(placement), placement.device), options.run_seed, options.optimizer,
                options.flat),
        strategy(sync::make_strategy(options.strategy, replica, group)),
        learner(replica, *strategy, {.run_seed = options.run_seed, .rng = options.rng, .residence = options.residence}),
        shard_sum(group, options.patience, lost, [this](const Limits& limits) { strategy->rest(limits); }),
        member{replica, *strategy, learner, shard_sum, group, lost} {}

  sync::Replica replica;
  std::unique_ptr<sync::Strategy> strategy;
  Learner learner;
  comm::GroupShardSum shard_sum;  // it waits for all replicas, which a strategy that does not wait for all has to know
  Member member;
  double cpu_seconds = 0;
};

// Ends all waits for this replica: those of its strategy, of the group of all replicas, and of the ranks.
void ReplicaTeam::abort(int local, const std::string& why) {
  const auto& group = groups_[static_cast<std::size_t>(local)];
  const auto& seat = members_[static_cast<std::size_t>(local)];
  // A replica that fails while it is built has no seat yet.
  if (seat) seat->strategy->abort(why);
  if (group) group->abort(why);
  ranks_.abort(why);
}

// The watch ends a run by aborting all replicas of this process, and by their groups those of all ranks.
void ReplicaTeam::set_watch(std::function<Deadline()> next_look, std::function<std::string()> look,
                            Clock::duration grace) {
  threads_.set_watch({.next_look = std::move(next_look),
                      .look = std::move(look),
                      .end =
                          [this](const std::string& why) {
                            for (int local = 0; local < size(); ++local) abort(local, why);
                          },
                      .grace = grace});
}

ReplicaTeam::ReplicaTeam(const std::vector<sync::Placement>& placements, const TeamOptions& options,
                         const BuildModule& build, const Ranks& ranks)
    : options_(options),
      ranks_(ranks),
      lost_(ranks.lost()),
      groups_(comm::make_local_group(static_cast<int>(placements.size()))),
      nodes_(nodes_for(placements)),
      members_(placements.size()),
      threads_(options.threads, static_cast<int>(placements.size())) {
  choose_matrix_kernels();
  const bool is_cuda = std::any_of(placements.begin(), placements.end(),
                                   [](const sync::Placement& placement) { return placement.device.is_cuda(); });
  if (is_cuda) device::choose_cuda_kernels(options.cuda_kernels);
  // A replica that fails ends the waits of the others.
  threads_.set_on_failure([this](int local, const std::string& why) { abort(local, why); });
  threads_.run([&](int local) { take_seat(placements[static_cast<std::size_t>(local)], build); });
}

// It is here, because Seat is incomplete in the header.
ReplicaTeam::~ReplicaTeam() = default;

// On the replica's own thread, so that modules are built side by side. The group of this process becomes one of all
// ranks before the replica is made.
void ReplicaTeam::take_seat(const sync::Placement& placement, const BuildModule& build) {
  const auto local = static_cast<std::size_t>(placement.local);
  if (!nodes_.empty()) (void)bind_this_thread(nodes_[local]);
  device::use_one_core();
  const Limits limits = this->limits();
  if (ranks_.size() > 1) {
    groups_[local] =
        comm::make_layered_group(std::move(groups_[local]), ranks_.group(), limits, comm::Names::kOfTheRun);
  }
  members_[local] = std::make_unique<Seat>(placement, options_, build, *groups_[local], lost_);
  members_[local]->strategy->begin(limits);
}

void ReplicaTeam::run_on_all(const std::function<void(Member&)>& work) {
  threads_.run([&](int local) {
    Seat& seat = *members_[static_cast<std::size_t>(local)];
    const double before = thread_cpu_seconds();
    work(seat.member);
    seat.strategy->rest(limits());
    // Only this thread writes the sum, and the caller reads it between runs.
    seat.cpu_seconds += thread_cpu_seconds() - before;
  });
}

Member ReplicaTeam::member(int local) { return members_[static_cast<std::size_t>(local)]->member; }

void ReplicaTeam::set_passes(std::uint64_t passes) {
  for (const auto& each : members_) each->member.learner.set_passes(passes);
}

model::NamedTensors ReplicaTeam::state() {
  model::NamedTensors whole;
  run([&](Member& member) {
    model::NamedTensors its = member.strategy.whole_state(limits());
    if (member.replica.placement().local == 0) whole = std::move(its);
  });
  return whole;
}

void ReplicaTeam::load_state(const model::NamedTensors& state) {
  for (const auto& seat : members_) seat->strategy->load_whole_state(state);
}

std::vector<ReplicaTeam::Work> ReplicaTeam::work() const {
  std::vector<double> mine;
  for (const auto& seat : members_) {
    append_struct(Work{.rows = seat->learner.rows_trained(),
                       .cpu_seconds = seat->cpu_seconds,
                       .staleness = seat->learner.staleness()},
                  mine);
  }
  std::vector<Work> all;
  for (const std::vector<double>& rank : ranks_.gather(mine)) {
    for (std::span<const double> left = rank; !left.empty();) all.push_back(take_struct<Work>(left));
  }
  return all;
}

// All ranks first tell how long their replicas waited, so that their last steps are part of the account when the rank
// that has it takes it and hands it round.
std::optional<GradientReport> ReplicaTeam::take_gradients() {
  if (!sync::keeps_account(options_.strategy)) return std::nullopt;
  GradientReport report;
  std::vector<double> waited;
  for (const auto& seat : members_) waited.push_back(seat->learner.staleness().wait_seconds);
  for (const std::vector<double>& rank : ranks_.gather(waited)) {
    for (const double seconds : rank) report.replicas.push_back({.totals = {}, .waited_seconds = seconds});
  }
  std::vector<double> mine;
  if (std::optional<sync::GradientAccount> account = members_.front()->strategy->take_account()) {
    append_struct(account->sizes, mine);
    for (const sync::GradientTotals& each : account->replicas) append_struct(each, mine);
  }
  for (const std::vector<double>& rank : ranks_.gather(mine)) {
    if (rank.empty()) continue;
    std::span<const double> left = rank;
    report.sizes = take_struct<sync::StepSizes>(left);
    for (ReplicaGradients& each : report.replicas) each.totals = take_struct<sync::GradientTotals>(left);
  }
  return report;
}

std::string table_of(const std::vector<ReplicaGradients>& replicas, const sync::StepSizes& all) {
  std::array<std::string, kHeads.size()> cells;
  std::copy(kHeads.begin(), kHeads.end(), cells.begin());
  std::string table = row_of(cells);
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const auto& [totals, waited] = replicas[replica];
    table += row_of({concat(replica), concat(totals.offered), concat(totals.accepted()), concat(totals.applied),
                     concat(totals.dropped), concat(std::llround(1e3 * waited))});
  }
  if (all.steps == 0) return table;
  return table + concat(all.steps, " steps, each of ", range_of(all.gradients, all.steps), " gradients and ",
                        range_of(all.rows, all.steps), " rows\n");
}

}  // namespace tandem::learner
