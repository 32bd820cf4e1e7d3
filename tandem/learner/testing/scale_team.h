// learner/testing/scale_team.h: replicas of the smallest model that learns.
#pragma once
#include <torch/nn/module.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include "tandem/learner/replica_team.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::learner {

/// y = sum(weight * x): no matrix product, whose bits could depend on the number of rows.
struct Scale : torch::nn::Module {
  Scale() { weight = register_parameter("weight", torch::zeros({3}, torch::kDouble)); }
  torch::Tensor forward(const torch::Tensor& x) { return (x * weight).sum(1); }
  torch::Tensor weight;
};

inline Scale& scale_of(Member& member) { return dynamic_cast<Scale&>(member.replica.module()); }

/// `replicas` of them, with plain SGD of learning rate `lr`.
inline ReplicaTeam make_scale_team(int shards, int replicas, double lr = 0.1) {
  return {sync::place_on_cpu(shards, replicas),
          {.run_seed = 5,
           .rng = model::RngOrder::kShards,
           .optimizer = {model::SgdOptions{.lr = lr}},
           .flat = {},
           .strategy = {},
           .residence = {},
           .patience = std::chrono::seconds(20)},
          [](const sync::Placement&) { return std::make_shared<Scale>(); }};
}

}  // namespace tandem::learner
