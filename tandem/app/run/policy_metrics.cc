#include "tandem/app/run/policy_metrics.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::string_view kPolicy = "policy/", kFirstField = "/episodes";

constexpr std::array kLearningFields{
    std::pair{"policy_loss", &PolicyLearning::policy_loss},
    std::pair{"value_loss", &PolicyLearning::value_loss},
    std::pair{"entropy", &PolicyLearning::entropy},
    std::pair{"approx_kl", &PolicyLearning::approx_kl},
    std::pair{"clip_fraction", &PolicyLearning::clip_fraction},
    std::pair{"explained_variance", &PolicyLearning::explained_variance},
    std::pair{"grad_norm", &PolicyLearning::grad_norm},
    std::pair{"learning_rate", &PolicyLearning::learning_rate},
    std::pair{"entropy_coef", &PolicyLearning::entropy_coef},
};

std::optional<double> number_or_none(const JsonValue& value) {
  return value.is_null() ? std::nullopt : std::optional(value.as_double());
}

PolicyMetrics read_policy(const JsonValue& line, const std::string& name) {
  const auto field = [&](std::string_view key) -> const JsonValue& { return line.at(concat(kPolicy, name, "/", key)); };
  PolicyMetrics policy{.name = name,
                       .episode_return_mean = number_or_none(field("episode_return_mean")),
                       .episode_length_mean = number_or_none(field("episode_length_mean")),
                       .episodes = field("episodes").as_int64(),
                       .decisions = field("decisions").as_int64()};
  if (line.find(concat(kPolicy, name, "/", kLearningFields.front().first)) == nullptr) return policy;
  policy.learning.emplace();
  for (const auto& [key, member] : kLearningFields)  // JSON has no NaN: it is written as null
    *policy.learning.*member = number_or_none(field(key)).value_or(std::numeric_limits<double>::quiet_NaN());
  return policy;
}

}  // namespace

void add_policy(const PolicyMetrics& policy, Record& record) {
  const std::string prefix = concat(kPolicy, policy.name, "/");
  record.add(concat(kPolicy, policy.name, kFirstField), policy.episodes);
  record.add(prefix + "episode_return_mean", policy.episode_return_mean);
  record.add(prefix + "episode_length_mean", policy.episode_length_mean);
  record.add(prefix + "decisions", policy.decisions);
  if (!policy.learning) return;
  for (const auto& [key, member] : kLearningFields) record.add(prefix + key, *policy.learning.*member);
}

std::vector<PolicyMetrics> read_policies(const JsonValue& line) {
  std::vector<PolicyMetrics> policies;
  for (const auto& [key, value] : line.as_object()) {
    if (!key.starts_with(kPolicy) || !key.ends_with(kFirstField)) continue;
    policies.push_back(read_policy(line, key.substr(kPolicy.size(), key.size() - kPolicy.size() - kFirstField.size())));
  }
  return policies;
}

}  // namespace tandem::app
