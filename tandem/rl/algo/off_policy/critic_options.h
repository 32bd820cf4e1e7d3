// rl/algo/off_policy/critic_options.h: the numbers of critics that estimate Q(s, a), which SAC and TD3 have alike.
//
// They are what tells SAC and TD3 from their descendants for few steps: REDQ and DroQ.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/off_policy/off_policy_options.h"

namespace tandem::rl {

/// Layers of a critic: plain, or with a layer norm before each activation (DroQ: Hiraoka et al. 2022; it keeps critics
/// from running away under many updates a step).
enum class CriticNorm { kNone, kLayer };

struct CriticOptions : OffPolicyOptions {
  // Networks that estimate Q(s, a).
  int critics = 2;
  // How many of them, drawn at random in each optimizer step, the least is taken of for the target (REDQ: Chen et al.
  // 2021); nothing: all.
  std::optional<int> target_critics = {};
  CriticNorm critic_norm = CriticNorm::kNone;
  // The share of a critic's hidden units that a loss leaves out, drawn anew for each row (DroQ: Hiraoka et al. 2022).
  double critic_dropout = 0;
};

/// Why there are no kernels for such critics, in a clause; empty where there are.
[[nodiscard]] inline std::string why_not_fused(const CriticOptions& options) {
  return options.critic_dropout > 0 ? "there are none for dropout" : "";
}

/// Returns what does not go together in critics.
[[nodiscard]] inline std::vector<CountFault> critic_faults(const CriticOptions& options) {
  if (!options.target_critics || *options.target_critics <= options.critics) return {};
  return {{"target_critics", concat(*options.target_critics),
           concat("they are drawn from the critics, which are ", options.critics)}};
}

}  // namespace tandem::rl
