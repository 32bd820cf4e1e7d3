#include "tandem/sync/replica.h"

#include <torch/nn/module.h>

#include <bit>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/shard_random.h"

namespace tandem::sync {

namespace {

// Divides the shards of a process among its devices. `common`: the fields that are equal for all its replicas, the
// number of its first replica, and in `mine` all shards of the process.
std::vector<Placement> place(const std::vector<c10::Device>& devices, const Placement& common) {
  std::vector<Placement> placements;
  const auto local = static_cast<int>(devices.size());
  for (int index = 0; index < local; ++index) {
    Placement& placement = placements.emplace_back(common);
    placement.replica += index;
    placement.mine = subtree_of(common.mine, local, index);
    placement.device = devices[static_cast<std::size_t>(index)];
    placement.local = index;
  }
  return placements;
}

// The shards that fall to this rank; none when there are fewer shards than ranks, which place_replicas() then reports.
Range shards_of_rank(const comm::Group& ranks, int shards) {
  try {
    return ranks.subtree({0, shards});
  } catch (const ConfigError&) {
    return {0, 0};
  }
}

}  // namespace

std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards) {
  return place(devices, {.replicas = static_cast<int>(devices.size()), .shards = shards, .mine = {0, shards}});
}

// A number of shards per replica has to fit the tree: each rank's subtree must have one for each of its replicas.
int default_shards(int ranks, int replicas_a_rank) {
  const int replicas = ranks * replicas_a_rank;
  for (int rank = 0; rank < ranks; ++rank) {
    if (subtree_of(replicas, ranks, rank).size() < replicas_a_rank)
      return replicas_a_rank * static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks)));
  }
  return replicas;
}

std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards, comm::Group& ranks,
                                      const Limits& limits) {
  Placement common{.shards = shards, .mine = shards_of_rank(ranks, shards)};
  // Every rank tells every other, so that all learn of a fault on any.
  const std::vector<double> mine{static_cast<double>(devices.size()), static_cast<double>(shards),
                                 static_cast<double>(common.mine.size())};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(mine, all, limits);
  common.replicas = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const double* its = all.data() + static_cast<std::ptrdiff_t>(mine.size()) * rank;
    const double replicas = its[0], its_shards = its[1], fall_to_it = its[2];
    if (its_shards != all[1]) {
      throw ConfigError(concat("rank 0 has ", all[1], " shards, rank ", rank, " has ", its_shards,
                               "; give all ranks the same number"));
    }
    if (replicas > fall_to_it) {
      throw ConfigError(concat("of ", shards, " shards ", fall_to_it, " fall to rank ", rank, " of ", ranks.size(),
                               ", which has ", replicas, " replicas, and each needs at least one; use more shards, or ",
                               "fewer devices or ranks"));
    }
    if (rank < ranks.rank()) common.replica += static_cast<int>(replicas);
    common.replicas += static_cast<int>(replicas);
  }
  return place(devices, common);
}

Replica::Replica(const Placement& placement, std::shared_ptr<torch::nn::Module> module, std::uint64_t run_seed,
                 const std::vector<model::OptimizerOptions>& optimizer, const model::FlatParameters::Options& flat)
    : placement_(placement), module_(std::move(module)), parameters_(module_, flat), buffers_(module_) {
  if (!optimizer.empty()) optimizer_.emplace(parameters_, optimizer);
  for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
    generators_.push_back(model::make_shard_generator(run_seed, shard));
  }
}

model::Optimizer& Replica::optimizer() {
  TANDEM_CHECK(has_optimizer(), "a replica without an optimizer of its own");
  return *optimizer_;
}

at::Generator& Replica::generator(int shard) {
  TANDEM_CHECK(shard >= placement_.mine.begin && shard < placement_.mine.end, "shard ", shard, " is not of replica ",
               placement_.replica);
  return generators_[static_cast<std::size_t>(shard - placement_.mine.begin)];
}

// Names here are only for messages; the tensors are whole flat buffers, so that a broadcast has few of them to send.
model::NamedTensors Replica::state() {
  model::NamedTensors all;
  for (std::size_t b = 0; b < parameters_.buffers().size(); ++b) {
    all.emplace_back(concat("parameters.", b), parameters_.buffers()[b].values);
  }
  const auto named = module_->named_parameters();
  for (const std::string& name : parameters_.frozen()) all.emplace_back("frozen." + name, named[name].detach());
  for (std::size_t b = 0; b < buffers_.values().size(); ++b) {
    all.emplace_back(concat("buffers.", b), buffers_.values()[b].values);
  }
  append_optimizer_state(all);
  return all;
}

model::NamedTensors Replica::named_state() {
  model::NamedTensors all = model::named_state_of(*module_);
  append_optimizer_state(all);
  return all;
}

void Replica::append_optimizer_state(model::NamedTensors& to) const {
  if (!optimizer_) return;
  for (const auto& [name, tensor] : optimizer_->state()) to.emplace_back(kOptimizerState + name, tensor);
}

}  // namespace tandem::sync
