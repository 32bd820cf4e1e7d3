// model/module_buffers.h: the buffers of a module (statistics of batch norm, say) as views into one tensor a dtype.
//
// Each shard of a step starts from the same buffers, whichever replica it runs on, so a replica saves them at the start
// of the step and restores them before each of its shards. Afterwards floating buffers become the mean of the shards'
// results, and all other buffers (integers, Bool) have the values of shard 0. A module that assigns a new tensor to a
// buffer's member, instead of writing in place, detaches it from the module in LibTorch; that is noticed only when the
// registered tensor was replaced.
//
// Threads: single-thread, the replica's. Ownership: keeps the module alive; the module's buffers alias `values`.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "tandem/model/flat_home.h"
#include "tandem/model/flat_parameters.h"

namespace tandem::model {

/// All buffers of one dtype.
struct FlatModuleBuffer {
  at::Tensor values;  // [count]; each buffer starts at a multiple of 64 bytes and the gaps stay zero
  std::vector<ParameterSlot> slots;
  enum class Merge { kMean, kShardZero } merge = Merge::kMean;  // kMean for floating dtypes
};

class ModuleBuffers {
 public:
  /// Moves the buffers of `module` into flat tensors on their device. A module may have none. Throws ConfigError when
  /// they lie on several devices or are not dense.
  explicit ModuleBuffers(std::shared_ptr<torch::nn::Module> module);

  [[nodiscard]] bool empty() const { return flats_.empty(); }
  /// By dtype, in the order of its first buffer.
  [[nodiscard]] const std::vector<FlatModuleBuffer>& values() const { return flats_; }
  /// Every buffer under its name, alive and in place.
  [[nodiscard]] const std::vector<std::pair<std::string, at::Tensor>>& named() const { return named_; }

  /// Remembers the values that the shards of this step start from.
  void save_start();
  /// Goes back to them.
  void restore_start();
  /// Brings buffers back that torch::load() or set_data() gave other memory, with their values; save_start() and
  /// restore_start() do so first. Throws ConfigError naming one that has another device, dtype or shape now, or shares
  /// memory with another tensor.
  void return_home();

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<FlatModuleBuffer> flats_;
  std::vector<at::Tensor> starts_;  // per flat tensor
  std::vector<std::pair<std::string, at::Tensor>> named_;
  std::vector<Home> homes_;
};

}  // namespace tandem::model
