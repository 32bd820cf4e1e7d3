#include "tandem/rl/env/check/observed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::rl {
namespace {

double element(const Leaf& leaf, const std::byte* at) {
  if (leaf.type == ElementType::kUInt8) return std::to_integer<int>(*at);
  if (leaf.type == ElementType::kInt64) {
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  if (leaf.type == ElementType::kFloat64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A bound that is no float, such as 0.1, is compared as the float that it becomes.
double bound(const Leaf& leaf, double value) {
  return leaf.type == ElementType::kFloat64 ? value : static_cast<float>(value);
}

}  // namespace

void Moments::add(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (value - mean_);
  least_ = std::min(least_, value);
  most_ = std::max(most_, value);
}

double Moments::deviation() const { return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_)); }

Observed::Observed(const MultiAgentSpec& spec, std::size_t environments)
    : spec_(spec),
      agents_(spec.agents.size()),
      length_(environments),
      return_(spec.agents.size(), std::vector<double>(environments)),
      out_(spec.agents.size(), std::vector<std::uint8_t>(environments)) {
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    for (const Leaf& leaf : spec_.agents[agent].observation) {
      const auto count = static_cast<std::size_t>(leaf.count());
      agents_[agent].leaves.push_back({std::vector<Moments>(count), std::vector<std::optional<OutOfBounds>>(count)});
    }
  }
}

void Observed::look(const Play& play) {
  ++steps_;
  for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
    look_at_leaves(play, agent);
    ObservedAgent& seen = agents_[agent];
    const AgentArrays& arrays = play.arrays(agent);
    const auto options = static_cast<std::size_t>(mask_elements(spec_.agents[agent].action));
    for (std::size_t e = 0; e < length_.size(); ++e) {
      if (arrays.env.action_mask != nullptr && arrays.acts[e] != 0) {
        const std::uint8_t* mask = arrays.env.action_mask + e * options;
        ++seen.masks;
        seen.forbidding += std::any_of(mask, mask + options, [](std::uint8_t may) { return may == 0; }) ? 1 : 0;
      }
      if (steps_ == 0) continue;
      seen.reward.add(arrays.env.reward[e]);
      seen.rewarded += arrays.env.reward[e] != 0 ? 1 : 0;
      return_[agent][e] += arrays.env.reward[e];
    }
  }
  if (steps_ > 0) look_at_ends(play);
}

// Final observations are looked at as well: what goes wrong often goes wrong at the end.
void Observed::look_at_leaves(const Play& play, std::size_t agent) {
  const std::vector<Leaf>& leaves = spec_.agents[agent].observation;
  const EnvArrays& arrays = play.arrays(agent).env;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const std::size_t bytes = leaves[l].bytes();
    for (std::size_t e = 0; e < length_.size(); ++e) {
      look_at_row(leaves[l], arrays.observation[l] + e * bytes, e, agents_[agent].leaves[l]);
      if (arrays.terminated[e] == 0 && arrays.truncated[e] == 0) continue;
      look_at_row(leaves[l], arrays.final_observation[l] + e * bytes, e, agents_[agent].leaves[l]);
    }
  }
}

void Observed::look_at_row(const Leaf& leaf, const std::byte* at, std::size_t e, ObservedLeaf& seen) const {
  for (std::size_t i = 0; i < seen.elements.size(); ++i, at += size_of(leaf.type)) {
    const double value = element(leaf, at);
    seen.elements[i].add(value);
    const bool inside = leaf.low.empty() || (value >= bound(leaf, leaf.low[i]) && value <= bound(leaf, leaf.high[i]));
    if (!inside && !seen.outside[i]) seen.outside[i] = {.environment = e, .step = steps_, .value = value};
  }
}

// An environment's episode is over when the episodes of all its agents have ended.
void Observed::look_at_ends(const Play& play) {
  for (std::size_t e = 0; e < length_.size(); ++e) {
    ++length_[e];
    bool terminated = false, same = true;
    for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
      const EnvArrays& arrays = play.arrays(agent).env;
      if (arrays.terminated[e] == 0 && arrays.truncated[e] == 0) continue;
      out_[agent][e] = 1;
      terminated |= arrays.terminated[e] != 0;
      for (std::size_t l = 0; l < arrays.observation.size(); ++l) {
        const std::size_t bytes = spec_.agents[agent].observation[l].bytes();
        same &= std::memcmp(arrays.observation[l] + e * bytes, arrays.final_observation[l] + e * bytes, bytes) == 0;
      }
    }
    if (!std::ranges::all_of(out_, [e](const auto& out) { return out[e] != 0; })) continue;
    lengths_.add(static_cast<double>(length_[e]));
    terminated_ += terminated ? 1 : 0;
    (same ? same_final_ : other_final_) += 1;
    length_[e] = 0;
    for (std::size_t agent = 0; agent < agents_.size(); ++agent) {
      agents_[agent].episode_return.add(return_[agent][e]);
      return_[agent][e] = 0;
      out_[agent][e] = 0;
    }
  }
}

}  // namespace tandem::rl
