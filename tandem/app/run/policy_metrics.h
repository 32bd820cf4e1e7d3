// app/run/policy_metrics.h: the numbers of one policy in one update, of runs that have several: the fields
// policy/NAME/... of metrics.jsonl and summary.json.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/json_reader.h"
#include "tandem/metrics/sink.h"

namespace tandem::app {

/// Of a policy that is trained; means over the update's minibatches.
struct PolicyLearning {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;
  double explained_variance = 0, grad_norm = 0, learning_rate = 0, entropy_coef = 0;

  friend bool operator==(const PolicyLearning&, const PolicyLearning&) = default;
};

struct PolicyMetrics {
  std::string name;
  std::optional<double> episode_return_mean = {}, episode_length_mean = {};  // of its agents, as UpdateMetrics
  std::int64_t episodes = 0;
  std::int64_t decisions = 0;                   // of its agents, that it learned from in this update
  std::optional<PolicyLearning> learning = {};  // none: it is not trained

  friend bool operator==(const PolicyMetrics&, const PolicyMetrics&) = default;
};

void add_policy(const PolicyMetrics& policy, Record& record);
/// Those of a line of metrics.jsonl, in its order. Throws JsonError when they are not add_policy()'s.
[[nodiscard]] std::vector<PolicyMetrics> read_policies(const JsonValue& line);

}  // namespace tandem::app
