// rl/algo/dqn/dqn_options.h: the numbers of DQN and of what was added to it since.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <cstdint>

#include "tandem/rl/algo/off_policy/off_policy_options.h"

namespace tandem::rl {

/// Who chooses the action that a target is bootstrapped with: the target network (Mnih et al. 2015), or the network
/// that learns, whose choice the target network values (van Hasselt, Guez, Silver 2016: double DQN).
enum class DqnTarget { kMax, kDouble };

/// One network for Q(s, a), or one for the value of a state and one for the advantages of its actions (Wang et al.
/// 2016).
enum class DqnStreams { kOne, kDueling };

/// The part of a return that is learned: its mean; its distribution over fixed values (C51, Bellemare, Dabney, Munos
/// 2017); or its quantiles (QR-DQN, Dabney et al. 2018).
enum class DqnReturn { kMean, kCategorical, kQuantiles };

/// How it explores: it takes any action with probability epsilon, or the best one of a network whose layers are noisy
/// (Fortunato et al. 2018).
enum class DqnExploration { kEpsilon, kNoisy };

struct DqnOptions : OffPolicyOptions {
  double learning_rate = 1e-4;
  DqnTarget target = DqnTarget::kDouble;
  DqnStreams streams = DqnStreams::kOne;
  DqnReturn returns = DqnReturn::kMean;
  // Values of the distribution, or quantiles; and the range of the values.
  std::int64_t atoms = 51;
  double least_return = -10, most_return = 10;
  DqnExploration exploration = DqnExploration::kEpsilon;
  // Deviations of noisy layers begin with this, over the root of a layer's inputs.
  double first_deviation = 0.5;
  // The share of actions that are drawn evenly: from the first to the last over that share of the run.
  double first_epsilon = 1, last_epsilon = 0.05, epsilon_share = 0.1;

  /// Epsilon when the share `progress` of the run is made. Noisy layers need none.
  [[nodiscard]] double epsilon(double progress) const {
    if (exploration == DqnExploration::kNoisy) return 0;
    return epsilon_share <= progress ? last_epsilon
                                     : first_epsilon + (last_epsilon - first_epsilon) * progress / epsilon_share;
  }
  /// Numbers that a network tells of each action.
  [[nodiscard]] std::int64_t numbers() const { return returns == DqnReturn::kMean ? 1 : atoms; }
};

}  // namespace tandem::rl
