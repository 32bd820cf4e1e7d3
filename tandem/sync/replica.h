// sync/replica.h: one copy of the model on one device, driven by one thread.
//
// Holds what a strategy and a learner need of it: the module with flat parameters and flat buffers, the optimizer, and
// the shards that this replica works on, each with its own random stream.
//
// The parameters of the module become views into flat memory when the replica is made, and have to stay that: moving
// the module to another device or dtype afterwards is an error.
//
// Threads: single-thread; the thread that trains the replica also constructs it. Ownership: shares the module.
#pragma once
#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/comm/group.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/module_buffers.h"
#include "tandem/model/optimizer.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {

/// Begins the names of optimizer state in the whole state.
inline constexpr const char* kOptimizerState = "optimizer.";

/// Which part of the run's work a replica does.
struct Placement {
  int replica = 0;   // its number in the run
  int replicas = 1;  // in the run
  int shards = 1;    // in the run
  Range mine;        // the shards of this replica: one whole subtree
  c10::Device device = c10::Device(c10::kCPU);
  int local = 0;  // among the replicas of its process
};

/// The placements of `devices.size()` replicas that share `shards` shards. Throws ConfigError when there are fewer
/// shards than replicas, naming the counts that work.
[[nodiscard]] std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards);

/// A number of shards that the ranks, with the same number of replicas each, can share: one shard a replica where the
/// tree divides them so, else as many as for the next power of two of ranks (8 for 3 ranks with 2 replicas each).
[[nodiscard]] int default_shards(int ranks, int replicas_a_rank);

/// The placements of this rank's replicas, one a device, when the replicas of all `ranks` share the shards. Ranks may
/// have different numbers of devices. Collective. Throws ConfigError on all ranks when they disagree about the shards
/// or one has more replicas than shards fall to it.
[[nodiscard]] std::vector<Placement> place_replicas(const std::vector<c10::Device>& devices, int shards,
                                                    comm::Group& ranks, const Limits& limits);

class Replica {
 public:
  /// `module` lies on the placement's device. `optimizer`: one entry a parameter group, or one for all, or none when
  /// the parameters are updated by other means.
  Replica(const Placement& placement, std::shared_ptr<torch::nn::Module> module, std::uint64_t run_seed,
          const std::vector<model::OptimizerOptions>& optimizer, const model::FlatParameters::Options& flat = {});

  [[nodiscard]] const Placement& placement() const { return placement_; }
  [[nodiscard]] torch::nn::Module& module() { return *module_; }
  [[nodiscard]] model::FlatParameters& parameters() { return parameters_; }
  [[nodiscard]] model::ModuleBuffers& buffers() { return buffers_; }
  [[nodiscard]] bool has_optimizer() const { return optimizer_.has_value(); }
  [[nodiscard]] model::Optimizer& optimizer();
  /// The random stream of one of this replica's shards. `shard`: its number in the run.
  [[nodiscard]] at::Generator& generator(int shard);

  /// Everything that must be equal on all replicas, as live tensors and as few of them as possible: flat parameters and
  /// buffers, frozen parameters, optimizer state; not moments of which the optimizer keeps only a part.
  [[nodiscard]] model::NamedTensors state();
  /// All of that under the names that the module gives its parameters and buffers, for hashes and checkpoints.
  [[nodiscard]] model::NamedTensors named_state();

 private:
  void append_optimizer_state(model::NamedTensors& to) const;

  const Placement placement_;
  const std::shared_ptr<torch::nn::Module> module_;
  model::FlatParameters parameters_;
  model::ModuleBuffers buffers_;
  std::optional<model::Optimizer> optimizer_;
  std::vector<at::Generator> generators_;
};

// All replicas hold the same model and the same values. Strategies call require_same_model() and broadcast_state() in
// begin(), and compare before they give their state; DataParallel compares every so many steps, too. All of these
// functions are collective: every replica of the group calls them, on its thread and in the same order, and waits for
// the others until `limits`; errors of the group besides those named.

/// Gathers a text of every replica, in their order.
[[nodiscard]] std::vector<std::string> gather_text(comm::Group& group, const std::string& mine, const Limits& limits);

/// Throws ConfigError on every replica unless all models have the same tensors; gives the count of each replica's
/// parameters, and names the first tensor that differs, with its dtype and shape on each replica.
void require_same_model(Replica& replica, comm::Group& group, const Limits& limits);

/// Gives all replicas the values of replica `root`: parameters, buffers, optimizer state.
void broadcast_state(Replica& replica, comm::Group& group, int root, const Limits& limits);

/// Throws RunError on every replica unless all hold the same bits; names the first tensor that differs, the replicas
/// that differ from replica 0 in it, and what can be done: `advice`, a sentence. Where only buffers differ, it says
/// that they were written to since the last step, by a forward pass in train() mode, say; with `buffer_advice` in place
/// of the other, if it is given. Exchanges 128 bits a tensor; takes one pass over the state.
void require_same_state(Replica& replica, comm::Group& group, std::string_view advice, const Limits& limits,
                        std::string_view buffer_advice = {});

/// The advice of a strategy that gives no state of replicas that differ.
inline constexpr std::string_view kNoStateOfDrifted =
    "No checkpoint is written of this state: go on from the last one, on hosts of one kind";

}  // namespace tandem::sync
