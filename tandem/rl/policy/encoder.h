// rl/policy/encoder.h: an observation of any leaves as one float32 row of features: images through a torso (torso.h),
// all other leaves as features.h has them.
//
// Parameters: "0.conv_0.weight", ... of the torso of leaf 0, and so on. None without a torso.
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/policy/features.h"
#include "tandem/rl/policy/torso.h"

namespace tandem::rl {

class Encoder final : public torch::nn::Module {
 public:
  /// Throws ConfigError as chosen_torso() and FlatFeatures do.
  Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator);

  /// Features of one row: those of the torsos in the order of their leaves, then those of the other leaves.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool has_torso() const { return !torsos_.empty(); }
  /// Of the leaves that no torso takes: of all where there is none.
  [[nodiscard]] const FlatFeatures& flat() const { return flat_; }

  /// [B, size()]. Throws ConfigError for observations that are not of the spec, and as FlatFeatures::encode().
  [[nodiscard]] at::Tensor encode(const Observation& observation);
  /// As FlatFeatures::script(); this module is self.`name`.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;

 private:
  struct OfLeaf {
    std::size_t leaf;
    std::shared_ptr<ImageTorso> torso;
  };

  const Spec spec_;
  const Torso kind_;
  const FlatFeatures flat_;
  std::vector<std::size_t> flat_leaves_;
  std::vector<OfLeaf> torsos_;
  std::int64_t size_ = 0;
};

}  // namespace tandem::rl
