// bench/rl/sac_update.h: one update of SAC, in fused kernels and with autograd, from the same batch and the same noise.
//
// An update: targets of both critics from the actor's next actions; the critics' loss, Adam; the actor's loss through
// the critics, Adam; the target networks' step towards the critics. The temperature is fixed.
// Threads: single-thread.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/model/optimizer.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"
#include "tandem/rl/policy/kernels/squashed_normal_gradient.h"

namespace tandem::bench {

/// Features of an observation, components of an action, rows of a batch, units of each hidden layer.
struct SacSizes {
  std::int64_t observation, action, rows;
  std::vector<std::int64_t> hidden;
};

/// Networks, optimizers, one batch and its noise. The two ways to update are given the same start and are told apart by
/// rounding alone, so each object goes one of them and two objects are compared.
class SacUpdate {
 public:
  /// Parameters, batch and noise follow from LibTorch's default generator.
  explicit SacUpdate(const SacSizes& sizes, rl::Compute compute = rl::Compute::kFloat32);

  /// One update each, of the parameters as they are; the sum of the critics' losses.
  double fuse();
  double differentiate();
  /// Draws the batch and the noise of the next update.
  void draw();

  /// Forward and backward pass of both critics with respect to their parameters alone; the sum of the outputs.
  double fuse_critics();
  double differentiate_critics();

  /// Multiply-adds of the products of an update, and of both critics' forward and backward pass alone: backward with
  /// respect to weights and, but for the first layer, to inputs.
  [[nodiscard]] double multiply_adds() const;
  [[nodiscard]] double multiply_adds_of_critics() const;
  /// The parameters of actor, critics and targets, to compare them.
  [[nodiscard]] std::vector<at::Tensor> parameters() const;

 private:
  // Networks whose parameters lie in one flat tensor, with an optimizer.
  struct Trained {
    Trained(const std::vector<std::int64_t>& sizes, int count, std::uint64_t seed);
    void begin();  // gradients from zero
    void step();   // applies what they hold
    [[nodiscard]] const at::Tensor& values() const { return flat->buffers()[0].values; }

    std::vector<std::shared_ptr<rl::Mlp>> nets;
    std::unique_ptr<model::FlatParameters> flat;
    model::FlatParameters::Gradients gradients;
    std::unique_ptr<model::Optimizer> optimizer;
  };
  [[nodiscard]] rl::MlpEnsemble<float> ensemble(const Trained& of, std::int64_t second, rl::Passes passes) const;
  void fuse_targets();
  double fuse_critic_step();
  void fuse_actor_step();
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> act(const at::Tensor& observation, const at::Tensor& noise) const;
  [[nodiscard]] std::vector<at::Tensor> values_of(const Trained& critics, const at::Tensor& observation,
                                                  const at::Tensor& action) const;

  const SacSizes sizes_;
  const rl::Compute compute_;
  Trained actor_, critics_, targets_;
  rl::MlpEnsemble<float> actor_passes_, critic_passes_, target_passes_;
  rl::SquashedNormalGradient<float> draws_;
  // [rows, ..]
  at::Tensor observation_, next_observation_, action_, reward_, done_, noise_, next_noise_;
  std::vector<float> goal_, of_value_, of_log_prob_;
};

}  // namespace tandem::bench
