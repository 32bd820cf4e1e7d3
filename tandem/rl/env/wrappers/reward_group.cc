#include "tandem/rl/env/wrappers/reward_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

bool has_unwrapped_return(const Spec& spec) {
  return std::ranges::find(spec.metrics, kUnwrappedReturn, &Metric::name) != spec.metrics.end();
}

Spec with_changed_rewards(const Spec& inner, const ChangeThreshold& threshold) {
  Spec spec = inner;
  if (spec.reward_threshold) spec.reward_threshold = threshold(*spec.reward_threshold);
  if (!has_unwrapped_return(spec))
    spec.metrics.push_back(
        {.name = kUnwrappedReturn, .help = "Sum of an episode's rewards as the environment gave them."});
  return spec;
}

// The inner group writes everything to the caller's arrays, but its metrics to memory of ours where a row of the
// caller's has one more.
class RewardGroup final : public WrappingGroup {
 public:
  RewardGroup(std::unique_ptr<EnvGroup> inner_group, std::string name, std::function<double(double)> law,
              const ChangeThreshold& threshold)
      : WrappingGroup(std::move(inner_group), std::move(name),
                      [&](const Spec& its) { return with_changed_rewards(its, threshold); }),
        law_(std::move(law)),
        metrics_(inner().spec().metrics.size()),
        adds_metric_(!has_unwrapped_return(inner().spec())),
        sums_(rows()),
        inner_metrics_(rows() * metrics_) {}

 protected:
  void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& /*out*/) override {
    std::ranges::fill(sums_, 0.0);
  }
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    step_inner(which, actions, arrays_for_step(out));
    for (std::size_t e = 0; e < rows(); ++e) {
      if (!makes_a_step(which, e)) continue;
      sums_[e] += out.reward[e];
      out.reward[e] = law_(out.reward[e]);
      if (!std::isfinite(out.reward[e]))
        throw EnvError(concat(spec().id, ": environment ", e, " of ", rows(), ": its reward behind the wrapper is ",
                              out.reward[e]));
      if (!has_ended(out, e)) continue;
      tell_metrics(e, out);
      sums_[e] = 0;
    }
  }
  [[nodiscard]] double changed_reward(double inner_reward) const override { return law_(inner_reward); }
  void put_state(StateWriter& writer) const override { writer.put_range(sums_); }
  void get_state(StateReader& reader) override {
    const std::span<const std::byte> bytes = reader.get_bytes();
    if (bytes.size() != rows() * sizeof(double)) reader.fail("its sums of rewards are of another number");
    std::memcpy(sums_.data(), bytes.data(), bytes.size());
  }

 private:
  const EnvArrays& arrays_for_step(const EnvArrays& out) {
    if (!adds_metric_ || out.metrics == nullptr) return out;
    arrays_ = out;  // takes no memory but the first time
    arrays_.metrics = metrics_ == 0 ? nullptr : inner_metrics_.data();
    return arrays_;
  }
  void tell_metrics(std::size_t e, const EnvArrays& out) const {
    if (!adds_metric_ || out.metrics == nullptr) return;
    double* const row = out.metrics + e * (metrics_ + 1);
    std::copy_n(inner_metrics_.data() + e * metrics_, metrics_, row);
    row[metrics_] = sums_[e];
  }

  const std::function<double(double)> law_;
  const std::size_t metrics_;  // of the inner group
  const bool adds_metric_;
  std::vector<double> sums_;           // by environment: of its episode
  std::vector<double> inner_metrics_;  // [environments, metrics_]
  EnvArrays arrays_;
};

}  // namespace

EnvWrapper reward_wrapper(std::string name, std::function<double(double reward)> law, ChangeThreshold threshold) {
  return {.spec_of = [threshold](const Spec& inner) { return with_changed_rewards(inner, threshold); },
          .around = [name = std::move(name), law = std::move(law), threshold = std::move(threshold)](
                        std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<RewardGroup>(std::move(inner), name, law, threshold);
          },
          .stacks_of = same_stacks};
}

}  // namespace tandem::rl
