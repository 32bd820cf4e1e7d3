#include "tandem/rl/algo/policy_reports.h"

#include <array>

#include "tandem/base/text.h"

namespace tandem::rl {

void add_work(const std::vector<learner::ReplicaTeam::Work>& its, std::vector<learner::ReplicaTeam::Work>& all) {
  all.resize(its.size());
  for (std::size_t i = 0; i < its.size(); ++i) {
    all[i].rows += its[i].rows;
    all[i].cpu_seconds += its[i].cpu_seconds;
    all[i].staleness.offered += its[i].staleness.offered;
    all[i].staleness.wait_seconds += its[i].staleness.wait_seconds;
  }
}

// Figures are averaged and times are added, since the policies learn one after the other.
LearnReport mean_of(const std::vector<PolicyReport>& policies) {
  constexpr std::array kMeans{&LearnReport::policy_loss,        &LearnReport::value_loss,    &LearnReport::entropy,
                              &LearnReport::approx_kl,          &LearnReport::clip_fraction, &LearnReport::grad_norm,
                              &LearnReport::explained_variance, &LearnReport::learning_rate, &LearnReport::clip_range,
                              &LearnReport::entropy_coef,       &LearnReport::kl_coef};
  LearnReport mean;
  double trained = 0;
  for (const PolicyReport& policy : policies) {
    if (!policy.learning || policy.learning->minibatches == 0) continue;
    ++trained;
    mean.minibatches += policy.learning->minibatches;
    for (const auto field : kMeans) mean.*field += *policy.learning.*field;
    for (const auto field : {&LearnReport::load_seconds, &LearnReport::learn_seconds, &LearnReport::sync_seconds})
      mean.*field += *policy.learning.*field;
  }
  for (const auto field : kMeans) mean.*field /= trained;
  return mean;
}

std::string gradients_by(const std::vector<GradientsOfPolicy>& policies) {
  std::string text;
  for (const auto& [name, by] : policies) {
    if (text.empty()) text = by;
    if (by != text) text += concat("; of policy ", name, ": ", by);
  }
  return text;
}

}  // namespace tandem::rl
