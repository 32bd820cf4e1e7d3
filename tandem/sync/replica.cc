#include "tandem/sync/replica.h"

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/model/shard_random.h"

namespace tandem::sync {

std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards) {
  const int replicas = static_cast<int>(devices.size());
  std::vector<Placement> placements;
  for (int replica = 0; replica < replicas; ++replica) {
    placements.push_back({.replica = replica,
                          .replicas = replicas,
                          .shards = shards,
                          .mine = subtree_of(shards, replicas, replica),
                          .device = devices[static_cast<std::size_t>(replica)]});
  }
  return placements;
}

Replica::Replica(const Placement& placement, std::shared_ptr<torch::nn::Module> module, std::uint64_t run_seed,
                 const std::vector<model::OptimizerOptions>& optimizer, const model::FlatParameters::Options& flat)
    : placement_(placement),
      module_(std::move(module)),
      parameters_(module_, flat),
      buffers_(module_),
      optimizer_(parameters_, optimizer) {
  for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
    generators_.push_back(model::make_shard_generator(run_seed, shard));
  }
}

at::Generator& Replica::generator(int shard) {
  TANDEM_CHECK(shard >= placement_.mine.begin && shard < placement_.mine.end, "shard ", shard, " is not of replica ",
               placement_.replica);
  return generators_[static_cast<std::size_t>(shard - placement_.mine.begin)];
}

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
  for (const auto& [name, tensor] : optimizer_.state()) all.emplace_back("optimizer." + name, tensor);
  return all;
}

model::NamedTensors Replica::named_state() {
  model::NamedTensors all;
  for (const auto& entry : module_->named_parameters())
    all.emplace_back("parameters." + entry.key(), entry.value().detach());
  for (const auto& entry : module_->named_buffers()) all.emplace_back("buffers." + entry.key(), entry.value());
  for (const auto& [name, tensor] : optimizer_.state()) all.emplace_back("optimizer." + name, tensor);
  return all;
}

}  // namespace tandem::sync
