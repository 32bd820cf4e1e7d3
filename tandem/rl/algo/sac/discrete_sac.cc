#include "tandem/rl/algo/sac/discrete_sac.h"

#include <ATen/ATen.h>

#include "tandem/rl/algo/off_policy/agent_step.h"
#include "tandem/rl/algo/sac/discrete_sac_loss.h"
#include "tandem/rl/algo/sac/sac.h"

namespace tandem::rl {
void DiscreteSac::set_optimizers(const SacOptions& options, learner::TeamOptions& team) {
  Sac::set_optimizers(options, team);
}

DiscreteSac::DiscreteSac(learner::Member member, DiscreteSacPolicy& policy, const NetworkOptions& networks,
                         const SacOptions& options, InstructionSet /*set*/)
    : member_(std::move(member)),
      policy_(policy),
      target_critics_(module_for_target<ChoiceValues>(policy.log_temperature().device(), policy.spec(), networks,
                                                      std::ssize(policy.critics().networks()))),
      target_(member_.replica.parameters(), "critics", target_critics_),
      options_(options) {}

// In both steps the parts that are not concerned get no gradient, so the optimizer leaves them and their moments alone.
learner::LearnerReport DiscreteSac::learn(const Turn& now, std::span<OffPolicySums> sums,
                                          std::span<std::vector<float>> errors) {
  learner::LearnerReport report = step_by_autograd(member_, now, [&](const TransitionRows& rows, std::size_t local) {
    return sac_critic_loss(policy_, *target_critics_, rows, options_, sums[local], errors_of(errors, local));
  });
  if (now.turn % options_.policy_every == 0) {
    const learner::LearnerReport its =
        step_by_autograd(member_, now, [&](const TransitionRows& rows, std::size_t local) {
          return sac_policy_loss(policy_, rows, options_, sums[local]);
        });
    report.step.wait_seconds += its.step.wait_seconds;
  }
  if (now.turn % options_.target_every == 0) target_.follow(options_.tau);
  return report;
}

std::unique_ptr<Actor> DiscreteSac::make_explorer(const ActorOptions& options, std::int64_t rows,
                                                  std::uint64_t run_seed, int group) {
  return make_actor(policy_, options, rows, run_seed, group);
}

std::string DiscreteSac::gradients_by() const {
  return "losses and gradients by autograd, not by fused kernels: there are none for sac with choices";
}

void DiscreteSac::append_figures(std::vector<std::pair<std::string, double>>& figures) const {
  figures.emplace_back("temperature", temperature_of(policy_, options_).item<double>());
}

}  // namespace tandem::rl
