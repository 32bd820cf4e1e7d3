// rl/policy/encoder.h: turns an observation of any leaves into one float32 row of features: images through a torso
// (torso.h), all other leaves as features.h does it.
//
// Every policy of Tandem's begins with an Encoder, so all take the same observations. Parameters: "0.conv_0.weight",
// ... for the torso of leaf 0, and so on; none without a torso. Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/policy/features.h"
#include "tandem/rl/policy/torso.h"

namespace tandem::rl {

/// The first part of a policy: observations in, features out.
class Encoder final : public torch::nn::Module {
 public:
  /// Throws ConfigError as chosen_torso() and FlatFeatures do.
  Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator);

  /// Features of one row: those of the torsos in the order of their leaves, then those of the other leaves.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool has_torso() const { return !torsos_.empty(); }
  /// The features of the leaves that go through no torso; of all leaves where there is no torso.
  [[nodiscard]] const FlatFeatures& flat() const { return flat_; }

  /// [B, size()]. Throws ConfigError for observations that are not of the spec, and as FlatFeatures::encode().
  [[nodiscard]] at::Tensor encode(const Observation& observation);
  /// encode() in TorchScript, as FlatFeatures::script() is; `name` is the name of this module within self.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;

 private:
  // The torso of one image; images have torsos of their own since their sizes may differ.
  struct OfLeaf {
    std::size_t leaf;
    std::shared_ptr<ImageTorso> torso;
  };

  const Spec spec_;
  const Torso kind_;
  // The features of the leaves without a torso, and which leaves of the spec these are.
  const FlatFeatures flat_;
  std::vector<std::size_t> flat_leaves_;
  // In the order of their leaves.
  std::vector<OfLeaf> torsos_;
  // Features of one row in all.
  std::int64_t size_ = 0;
};

}  // namespace tandem::rl
