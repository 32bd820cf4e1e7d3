// rl/policy/export/portable_policy.h: the actions of a policy of any algorithm by the portable kernels, row by row:
// what an exported C++ header has to give to the bit, and what checks of exported files compare with.
//
// It goes through the policy's acting_net(). MlpActor, RecurrentActor, NetworkActor and DQN's own passes give the same
// bits with InstructionSet::kPortable (portable_policy_test.cc).
//
// Threads: single-thread. Ownership: it keeps packed copies of the weights; policy and normalisers must outlive it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/policy/acting_net.h"
#include "tandem/rl/policy/export/exported_policy.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

class PortablePolicy {
 public:
  /// Throws ConfigError for a policy with convolutions, or whose class does not override acting_net().
  explicit PortablePolicy(const ExportedPolicy& exported);

  /// One row as the environment shows it.
  struct Row {
    /// By leaf, in the environment's own types.
    std::span<const std::byte* const> leaves;
    /// [mask elements], or null.
    const std::uint8_t* mask = nullptr;
    /// [state_size()]; null for a policy that does not remember.
    const float* state = nullptr;
  };
  /// The policy decides by one kind of action; the other one is empty.
  struct Decision {
    std::vector<std::int64_t> choices;
    /// Within the bounds.
    std::vector<float> values;
    /// Logits or mean.
    std::vector<float> head;
    std::vector<float> next_state;
  };
  /// Throws EnvError for an integer out of its bounds and a mask that allows nothing, RunError for numbers that are not
  /// finite.
  [[nodiscard]] Decision act(const Row& row);

  /// The numbers of a row's state; 0 for a policy that does not remember.
  [[nodiscard]] std::int64_t state_size() const;

 private:
  void run(std::size_t step, Decision& decision);
  void remember(const RecurrentCell& cell, const float* x, float* output, Decision& decision);
  void expect(const ActingStep& step, const float* logits, float* means) const;
  void encode(std::span<const std::byte* const> leaves);

  const ExportedPolicy exported_;
  const ActingNet net_;
  // By value, padded; and by step, the layer of those that have one.
  std::vector<AlignedFloats> values_;
  std::vector<PackedLayer> layers_;
  std::vector<std::size_t> layer_of_;
  // A cell has two products.
  std::vector<PackedLayer> cell_;
};

}  // namespace tandem::rl
