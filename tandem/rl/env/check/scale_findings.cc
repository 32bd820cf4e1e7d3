#include "tandem/rl/env/check/scale_findings.h"

#include <algorithm>
#include <cmath>

#include "tandem/base/text.h"
#include "tandem/rl/env/float32_steps.h"

namespace tandem::rl {
namespace {

// Policies start with outputs of about 1 and learn with steps that fit numbers of about 1.
constexpr double kLargeScale = 20, kSmallScale = 0.01;
// Fewer steps are most likely how long the task lasts.
constexpr double kUsualLimit = 100;

class Judge {
 public:
  Judge(const MultiAgentSpec& spec, std::vector<Finding>& findings) : spec_(spec), findings_(findings) {}

  template <typename... Parts>
  void add(Weight weight, const char* kind, std::size_t agent, const Parts&... parts) {
    findings_.push_back({weight, kind, concat(who(agent), parts...)});
  }

 private:
  // Nothing where there is one agent.
  [[nodiscard]] std::string who(std::size_t agent) const {
    return spec_.agents.size() == 1 ? "" : concat(spec_.agents[agent].name, ": ");
  }

  const MultiAgentSpec& spec_;
  std::vector<Finding>& findings_;
};

std::string listed(const std::vector<std::size_t>& elements) {
  std::string text;
  for (std::size_t i = 0; i < elements.size() && i < 8; ++i) text += concat(i == 0 ? "" : ", ", elements[i]);
  return elements.size() > 8 ? concat(text, " and ", elements.size() - 8, " more") : text;
}

void judge_bounds(Judge& judge, std::size_t agent, const Leaf& leaf, const ObservedLeaf& seen) {
  std::size_t outside = 0, first = 0;
  for (std::size_t i = seen.outside.size(); i-- > 0;) {
    if (!seen.outside[i]) continue;
    ++outside;
    first = i;
  }
  if (outside == 0) return;
  const OutOfBounds& at = *seen.outside[first];
  const bool is_option = leaf.type == ElementType::kInt64;
  judge.add(is_option ? Weight::kFault : Weight::kWarning, "observation-bounds", agent, "observation '", leaf.name,
            "' leaves its bounds in ", outside,
            outside == 1 ? " element: element " : " elements: the first is element ", first, ", ", at.value,
            " in environment ", at.environment, " at step ", at.step, ", and its bounds are ", leaf.low[first], " and ",
            leaf.high[first],
            is_option ? "; policies take integers as options, and fail outside of the bounds"
                      : "; mend the bounds or the values");
}

void judge_scale(Judge& judge, std::size_t agent, const Leaf& leaf, const ObservedLeaf& seen) {
  std::vector<std::size_t> constant, large, small;
  for (std::size_t i = 0; i < seen.elements.size(); ++i) {
    const Moments& element = seen.elements[i];
    if (element.constant()) {
      constant.push_back(i);
    } else if (is_float(leaf.type)) {
      if (std::max(std::abs(element.mean()), element.deviation()) > kLargeScale) large.push_back(i);
      if (element.deviation() < kSmallScale) small.push_back(i);
    }
  }
  if (constant.size() == seen.elements.size()) {
    judge.add(Weight::kWarning, "constant-observation", agent, "observation '", leaf.name,
              "' never changes; is it written?");
  } else if (!constant.empty() && is_float(leaf.type)) {
    judge.add(Weight::kAdvice, "constant-element", agent, "observation '", leaf.name, "': element ", listed(constant),
              " never changes under random actions");
  }
  if (!large.empty()) {
    judge.add(Weight::kAdvice, "observation-scale", agent, "observation '", leaf.name, "': element ", listed(large),
              " is far from the range -", kLargeScale, " to ", kLargeScale, " (element ", large[0], " has mean ",
              seen.elements[large[0]].mean(), " and deviation ", seen.elements[large[0]].deviation(),
              "): normalize.observations=true helps");
  }
  if (!small.empty()) {
    judge.add(Weight::kAdvice, "observation-scale", agent, "observation '", leaf.name, "': element ", listed(small),
              " hardly changes (deviation ", seen.elements[small[0]].deviation(), " of element ", small[0],
              "): normalize.observations=true helps");
  }
}

// What is lost in float32. Of a float32 leaf the numbers are the narrowed ones, so an element that never changes may be
// one that float32 does not tell apart. Policies see float64 as float32, unless it is normalised before.
void judge_precision(Judge& judge, std::size_t agent, const Leaf& leaf, const ObservedLeaf& seen) {
  if (!is_float(leaf.type)) return;
  const bool is_wide = leaf.type == ElementType::kFloat64;
  for (std::size_t i = 0; i < seen.elements.size(); ++i) {
    const Moments& its = seen.elements[i];
    const double step = float32_step(its.least(), its.most());
    const bool stands = !is_wide && its.constant() && its.count() > 0 && step > kSmallScale;
    if (!stands && !float32_loses(its.least(), its.most())) continue;
    const std::string what = concat("observation '", leaf.name, "': element ", i, " lies around ", its.mean(),
                                    stands ? " and never changes" : concat(" and moves by ", its.most() - its.least()),
                                    ", and float32 has steps of ", step, " there: ");
    if (is_wide) {
      judge.add(Weight::kAdvice, "observation-precision", agent, what, "policies see it so unless ",
                "normalize.observations=true");
    } else {
      judge.add(Weight::kWarning, "observation-precision", agent, what, "smaller changes are lost; a leaf of double ",
                "with ElementType::kFloat64 keeps them, and normalize.observations=true shows them to policies");
    }
    return;  // one element shows it
  }
}

void judge_bytes(Judge& judge, std::size_t agent, const Leaf& leaf, const ObservedLeaf& seen) {
  if (leaf.type != ElementType::kUInt8) return;
  double most = 0;
  for (const Moments& element : seen.elements) most = std::max(most, element.most());
  const double high = leaf.high.empty() ? 255 : *std::ranges::max_element(leaf.high);
  if (most > 0 && most * 16 <= high) {
    judge.add(Weight::kWarning, "byte-scale", agent, "observation '", leaf.name, "' has bytes of 0 to ", most,
              ", and policies divide them by ", high, ": give high = ", most, " in its spec, or brighter bytes");
  }
}

void judge_rewards(Judge& judge, std::size_t agent, const ObservedAgent& seen) {
  if (seen.reward.count() == 0) return;
  if (seen.rewarded == 0) {
    judge.add(Weight::kWarning, "no-reward", agent, "no reward came in ", seen.reward.count(),
              " random steps; where random actions never earn anything, nothing can be learned from them");
    return;
  }
  const double scale = std::max(std::abs(seen.reward.mean()), seen.reward.deviation());
  if (scale > kLargeScale || (scale < kSmallScale && seen.rewarded * 10 > seen.reward.count())) {
    judge.add(Weight::kAdvice, "reward-scale", agent, "rewards have mean ", seen.reward.mean(), " and deviation ",
              seen.reward.deviation(), ": normalize.rewards=true helps");
  }
}

void judge_masks(Judge& judge, std::size_t agent, const ObservedAgent& seen) {
  if (seen.masks > 0 && seen.forbidding == 0) {
    judge.add(Weight::kWarning, "mask", agent, "its mask never forbade anything in ", seen.masks,
              " decisions; without has_action_mask it is faster");
  }
}

// The checks of episodes as a whole.
void judge_episodes(const Observed& observed, const MultiAgentSpec& spec, std::vector<Finding>& findings) {
  const auto add = [&](Weight weight, const char* kind, std::string text) {
    findings.push_back({weight, kind, std::move(text)});
  };
  const Moments& lengths = observed.lengths();
  if (lengths.count() == 0) {
    if (spec.max_episode_steps == 0) {
      add(Weight::kWarning, "endless-episodes",
          concat("no episode ended in ", observed.steps(),
                 " steps and there is no time limit: returns are known at ends "
                 "only, so give spec().max_episode_steps or end episodes"));
    }
    return;
  }
  if (observed.same_final() > 0 && observed.other_final() == 0 && lengths.count() >= 3) {
    add(Weight::kFault, "final-observation",
        concat("in all ", lengths.count(),
               " ends, the last observation of an episode was the first of the next: step() must return the "
               "observation that the episode ended with, and must not reset by itself"));
  }
  if (lengths.constant() && lengths.count() >= 3 && observed.terminated() == lengths.count() &&
      lengths.least() >= kUsualLimit && spec.max_episode_steps == 0) {
    add(Weight::kWarning, "time-limit",
        concat("all ", lengths.count(), " episodes were terminated after ", lengths.least(),
               " steps: if this is a time limit, say so by spec().max_episode_steps or truncated, so that the value of "
               "the last observation counts on"));
  }
}

}  // namespace

void judge_observed(const Observed& observed, const MultiAgentSpec& spec, std::vector<Finding>& findings) {
  Judge judge(spec, findings);
  for (std::size_t agent = 0; agent < spec.agents.size(); ++agent) {
    const ObservedAgent& seen = observed.agents()[agent];
    for (std::size_t l = 0; l < seen.leaves.size(); ++l) {
      const Leaf& leaf = spec.agents[agent].observation[l];
      judge_bounds(judge, agent, leaf, seen.leaves[l]);
      judge_scale(judge, agent, leaf, seen.leaves[l]);
      judge_precision(judge, agent, leaf, seen.leaves[l]);
      judge_bytes(judge, agent, leaf, seen.leaves[l]);
    }
    judge_rewards(judge, agent, seen);
    judge_masks(judge, agent, seen);
  }
  judge_episodes(observed, spec, findings);
}

void judge_spec(const MultiAgentSpec& spec, std::vector<Finding>& findings) {
  Judge judge(spec, findings);
  for (std::size_t agent = 0; agent < spec.agents.size(); ++agent) {
    for (const Leaf& leaf : spec.agents[agent].observation) {
      const bool last_is_channels = leaf.shape.size() == 3 && leaf.shape[2] <= 4 && leaf.shape[0] > 4;
      if (leaf.type == ElementType::kUInt8 && last_is_channels) {
        judge.add(Weight::kWarning, "channels-last", agent, "observation '", describe(leaf),
                  "' looks like an image with its channels last; policies take {channels, height, width}");
      }
      if (leaf.type == ElementType::kInt64 && leaf.low.empty()) {
        judge.add(Weight::kFault, "integer-bounds", agent, "observation '", describe(leaf),
                  "' has no bounds; policies need to know how many options an integer has: give low and high");
      }
    }
    const auto* box = std::get_if<Box>(&spec.agents[agent].action);
    if (box == nullptr) continue;
    std::vector<std::size_t> open, empty;
    for (std::size_t i = 0; i < box->low.size(); ++i) {
      if (!std::isfinite(box->low[i]) || !std::isfinite(box->high[i])) open.push_back(i);
      if (box->low[i] == box->high[i]) empty.push_back(i);
    }
    if (!open.empty()) {
      judge.add(Weight::kAdvice, "open-action", agent, "element ", listed(open),
                " of the action has no bounds on one side or both: its scale is unknown, and a policy begins with "
                "actions of about -1 to 1; bounds are better");
    }
    if (!empty.empty()) {
      judge.add(Weight::kWarning, "empty-action", agent, "element ", listed(empty),
                " of the action has one value only");
    }
  }
}

}  // namespace tandem::rl
