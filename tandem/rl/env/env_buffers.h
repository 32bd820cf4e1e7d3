// rl/env/env_buffers.h: memory for the arrays of one EnvGroup: what the smallest program that steps a group needs.
//
//   EnvBuffers buffers(*group);
//   group->reset(seeds, buffers.arrays());
//   group->step({.discrete = actions.data()}, buffers.arrays());
//   buffers.observation<float>(0);                       // the first leaf of environment 0
//
// Training writes into the slots of its rollout instead; this is for trying out environments, evaluation and tests.
// Threads: single-thread. Owns all memory; the EnvArrays and spans that it hands out live as long as it does.
// Shapes: a leaf has [environments, shape...] elements; rewards and ends have one entry for each environment.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// The arrays of one group, with typed views of what the group wrote to them.
class EnvBuffers {
 public:
  /// Room for `group`, zeroed. The group need not outlive the buffers. The spec is copied for that. All memory is taken
  /// here and never moves, so arrays() stays valid.
  explicit EnvBuffers(const EnvGroup& group) : EnvBuffers(group.spec(), static_cast<std::size_t>(group.size())) {}
  /// The same for `rows` environments of a spec: those of one agent among several, say (agent_spec()).
  EnvBuffers(Spec spec, std::size_t rows)
      : spec_(std::move(spec)),
        rows_(rows),
        reward_(rows_),
        terminated_(rows_),
        truncated_(rows_),
        mask_(spec_.has_action_mask ? rows_ * static_cast<std::size_t>(mask_elements(spec_.action)) : 0),
        metrics_(rows_ * spec_.metrics.size()) {
    for (const Leaf& leaf : spec_.observation) {
      observation_.emplace_back(rows_ * leaf.bytes());
      final_observation_.emplace_back(rows_ * leaf.bytes());
    }
    for (std::vector<std::byte>& leaf : observation_) arrays_.observation.push_back(leaf.data());
    for (std::vector<std::byte>& leaf : final_observation_) arrays_.final_observation.push_back(leaf.data());
    arrays_.action_mask = spec_.has_action_mask ? mask_.data() : nullptr;
    arrays_.reward = reward_.data();
    arrays_.terminated = terminated_.data();
    arrays_.truncated = truncated_.data();
    arrays_.metrics = metrics_.data();
  }
  /// Copies would share the pointers in arrays_ with the original, so there are none.
  EnvBuffers(const EnvBuffers&) = delete;
  EnvBuffers& operator=(const EnvBuffers&) = delete;

  /// The arrays to hand to reset(), step() and load().
  [[nodiscard]] const EnvArrays& arrays() const { return arrays_; }
  /// Environments of the group. Row e belongs to environment e in all arrays.
  [[nodiscard]] std::size_t rows() const { return rows_; }

  /// One row of an observation leaf; Element is the leaf's type: float, double, std::uint8_t or std::int64_t. Throws
  /// InvariantError where row_of() does. The span shows the values of the newest reset() or step().
  template <typename Element>
  [[nodiscard]] std::span<const Element> observation(std::size_t row, std::size_t leaf = 0) const {
    return row_of<Element>(observation_, row, leaf);
  }
  /// The last observation of the episode that ended in the last step. In rows without such an end it is that of an
  /// older episode, or zeros.
  template <typename Element>
  [[nodiscard]] std::span<const Element> final_observation(std::size_t row, std::size_t leaf = 0) const {
    return row_of<Element>(final_observation_, row, leaf);
  }
  /// One entry an environment each; action_mask() has mask_elements() entries an environment, and is empty without
  /// masks.
  [[nodiscard]] std::span<const double> reward() const { return reward_; }
  [[nodiscard]] std::span<const std::uint8_t> terminated() const { return terminated_; }
  [[nodiscard]] std::span<const std::uint8_t> truncated() const { return truncated_; }
  [[nodiscard]] std::span<const std::uint8_t> action_mask() const { return mask_; }
  /// The metrics of the episode of environment `row` that ended last, in the order of the spec; zeros before the first
  /// end, and a NaN where one is not known.
  [[nodiscard]] std::span<const double> metrics(std::size_t row) const {
    TANDEM_CHECK(row < rows_, "row ", row);
    return std::span(metrics_).subspan(row * spec_.metrics.size(), spec_.metrics.size());
  }

 private:
  // Throws InvariantError for a leaf or row that is not there, and for an Element of another size than the leaf's.
  template <typename Element>
  [[nodiscard]] std::span<const Element> row_of(const std::vector<std::vector<std::byte>>& leaves, std::size_t row,
                                                std::size_t leaf) const {
    TANDEM_CHECK(leaf < leaves.size() && row < rows_, "leaf ", leaf, ", row ", row);
    const Leaf& shape = spec_.observation[leaf];
    // Only the size is compared: a leaf of another type of that size would be read as wrong numbers.
    TANDEM_CHECK(sizeof(Element) == size_of(shape.type), describe(shape), " read with elements of ", sizeof(Element),
                 " bytes");
    const auto count = static_cast<std::size_t>(shape.count());
    return {reinterpret_cast<const Element*>(leaves[leaf].data()) + row * count, count};
  }

  const Spec spec_;
  const std::size_t rows_;
  // By leaf: the rows of all environments, one behind the other.
  std::vector<std::vector<std::byte>> observation_, final_observation_;
  // By environment; the mask has mask_elements() entries for each.
  std::vector<double> reward_;
  std::vector<std::uint8_t> terminated_, truncated_, mask_;
  std::vector<double> metrics_;
  // Pointers into the vectors above, which are never resized.
  EnvArrays arrays_;
};

}  // namespace tandem::rl
