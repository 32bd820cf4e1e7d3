#include <algorithm>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/env/wrappers/wrapping_group.h"

namespace tandem::rl {
namespace {

Spec with_limit(const Spec& inner, std::int64_t steps) {
  if (inner.max_episode_steps > 0 && steps > inner.max_episode_steps)
    throw ConfigError(concat("the environment ends episodes after ", inner.max_episode_steps,
                             " steps already, so the limit would never be reached; give at most that"));
  Spec spec = inner;
  spec.max_episode_steps = static_cast<int>(steps);
  return spec;
}

class TimeLimitGroup final : public WrappingGroup {
 public:
  TimeLimitGroup(std::unique_ptr<EnvGroup> inner_group, std::int64_t steps)
      : WrappingGroup(std::move(inner_group), "time_limit", [&](const Spec& its) { return with_limit(its, steps); }),
        limit_(steps),
        elapsed_(rows()),
        steps_(rows()) {}

 protected:
  void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& /*out*/) override {
    std::ranges::fill(elapsed_, 0);
  }
  // Most steps end no episode by time, and are the inner group's plain ones.
  void step_some(std::span<const RowStep> which, const EnvActions& actions, const EnvArrays& out) override {
    bool any_last = false;
    for (std::size_t e = 0; e < rows(); ++e) {
      steps_[e] = which.empty() ? RowStep::kStep : which[e];
      if (steps_[e] != RowStep::kStep || elapsed_[e] + 1 < limit_) continue;
      steps_[e] = RowStep::kLastStep;
      any_last = true;
    }
    step_inner(any_last ? std::span<const RowStep>(steps_) : which, actions, out);
    for (std::size_t e = 0; e < rows(); ++e) {
      if (makes_a_step(which, e)) elapsed_[e] = has_ended(out, e) ? 0 : elapsed_[e] + 1;
    }
  }
  void put_state(StateWriter& writer) const override {
    for (const std::int64_t steps : elapsed_) writer.put(steps);
  }
  void get_state(StateReader& reader) override {
    for (std::size_t e = 0; e < rows(); ++e) {
      elapsed_[e] = reader.get<std::int64_t>();
      if (elapsed_[e] < 0 || elapsed_[e] >= limit_)
        reader.fail(concat("environment ", e, " is ", elapsed_[e], " steps into its episode; the limit is ", limit_));
    }
  }

 private:
  const std::int64_t limit_;
  std::vector<std::int64_t> elapsed_;  // by environment: steps of its episode
  std::vector<RowStep> steps_;         // of one call
};

}  // namespace

EnvWrapper time_limit(std::int64_t steps) {
  return {.spec_of = [steps](const Spec& inner) { return with_limit(inner, steps); },
          .around = [steps](std::unique_ptr<EnvGroup> inner, std::uint64_t /*place*/) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<TimeLimitGroup>(std::move(inner), steps);
          },
          .stacks_of = same_stacks,
          .needs_rows = true};
}

}  // namespace tandem::rl
