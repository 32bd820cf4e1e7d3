// rl/algo/off_policy/network_actor.h: acts with the actor of SAC or TD3 on the CPU, without autograd or dispatch.
//
// The kernels read the parameters where they lie, so nothing is copied after an update. ModuleActor is the definition;
// the network's numbers agree with it to rounding, and the draws are those of ActionSampler.
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive the actor.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/algo/off_policy/feature_rows.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/actor/actors.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

/// The numbers that an actor's network tells.
enum class ActorHead {
  kMeanAndLogStd,  // of a squashed normal distribution, side by side
  kAction,         // before its tanh; a normal distribution around it has a deviation of its own
};

class NetworkActor final : public Actor {
 public:
  struct Options {
    ActorHead head = ActorHead::kMeanAndLogStd;
    // The logarithm of the deviation: its bounds where the network tells it, else its value.
    float least_log_std = 0, most_log_std = 0;
    ActorOptions acting = {};
  };
  /// For `rows` rows a step. `random`: the env group's stream. Throws ConfigError when this processor lacks the
  /// instruction set of the options.
  NetworkActor(const ActorCritic& policy, const ObservationNetwork& network, const Options& options, std::int64_t rows,
               Philox random);

  void refresh() override {}
  /// Values are not known here: they are told as 0.
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> done) override { sampler_.renew(done); }
  /// Throws InvariantError: nothing here values observations.
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  /// The random stream of the draws; the network is the policy's.
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override;

 private:
  // Draws come from the sampler's stream, which is the env group's.
  const Options options_;
  const std::int64_t rows_, size_;
  FeatureRows features_;
  MlpEnsemble<float> network_;
  ActionSampler sampler_;
  // [rows, size] each.
  std::vector<float> mean_, log_std_;
};

}  // namespace tandem::rl
