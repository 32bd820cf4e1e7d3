// SAC to the program, in the order of Algorithm's functions; what all algorithms with a replay have is in
// off_policy.cc.
#include "tandem/rl/algo/sac/sac.h"

#include "tandem/app/algo/native.h"
#include "tandem/app/algo/off_policy.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/sac/discrete_sac.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<rl::ActorValue> = words_up_to<rl::ActorValue::kMean>("least", "mean");

namespace {

class SacAlgorithm final : public OffPolicyAlgorithm {
 public:
  [[nodiscard]] std::string name() const override { return "sac"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    auto& sac = options.of<rl::SacOptions>();
    OptionSection section(table, "sac", {"algo", {"sac"}});
    add_off_policy_options(section, sac);
    section.add("learning_rate", sac.learning_rate, "Of Adam, for the actor and the temperature.").above(0).at_most(1);
    section.add("critic_learning_rate", sac.critic_learning_rate, "Of Adam, for the critics; auto: learning_rate.")
        .above(0)
        .at_most(1)
        .absent_as("auto");
    add_critic_options(section, sac);
    section.add("actor_value", sac.actor_value,
                "What an action of the actor is worth: the least that the critics say, or their mean (REDQ).");
    section.add("temperature", sac.temperature, "What the entropy is weighed with at first; it is learned.").above(0);
    section.add("fixed_temperature", sac.fixed_temperature, "What the entropy is weighed with, always.")
        .at_least(0)
        .instead_of("sac.temperature")
        .instead_of("sac.target_entropy");
    section
        .add("target_entropy", sac.target_entropy,
             "Entropy that the temperature is learned for; auto: minus the components of an action, or, of a choice, "
             "0.89 of that of even choices.")
        .absent_as("auto");
    section.add("policy_every", sac.policy_every, "Steps of the critics for one of the actor.")
        .within(1, kLargestCount);
    section
        .add("noise_correlation", sac.noise_correlation,
             "Part of an exploring action's draw that stays in that of the next step.")
        .within(0, 0.999);
  }

  void check(Rules& rules) const override {
    OffPolicyAlgorithm::check(rules);
    rules.count_faults(section(), rl::critic_faults(rules.options().of<rl::SacOptions>()));
  }

  [[nodiscard]] std::function<std::shared_ptr<rl::ActorCritic>(const rl::Spec&, at::Generator)> policy_factory(
      const TrainOptions& options, const PolicySettings& settings) const override {
    return [networks = network_options(settings, options.of<rl::SacOptions>()), sac = options.of<rl::SacOptions>()](
               const rl::Spec& spec, at::Generator generator) -> std::shared_ptr<rl::ActorCritic> {
      if (std::holds_alternative<rl::Discrete>(spec.action))
        return std::make_shared<rl::DiscreteSacPolicy>(spec, networks, sac.critics, sac.first_temperature(),
                                                       std::move(generator));
      return std::make_shared<rl::SacPolicy>(spec, networks, sac.critics, sac.first_temperature(),
                                             std::move(generator));
    };
  }

 private:
  // Options of critics that value actions of a Box, and of draws that there are none of here.
  static void check_for_choices(const rl::SacOptions& sac, const rl::Spec& spec) {
    const char* key = sac.compute != rl::Compute::kFloat32        ? "compute"
                      : sac.target_critics                        ? "target_critics"
                      : sac.actor_value != rl::ActorValue::kLeast ? "actor_value"
                      : sac.critic_norm != rl::CriticNorm::kNone  ? "critic_norm"
                      : sac.critic_dropout > 0                    ? "critic_dropout"
                      : sac.noise_correlation > 0                 ? "noise_correlation"
                                                                  : nullptr;
    if (key != nullptr)
      throw ConfigError(concat("sac.", key, " has no effect where actions are choices, as those of ", spec.id, " are"));
  }

 protected:
  [[nodiscard]] rl::OffPolicyOptions off_policy_options(const TrainOptions& options) const override {
    return with_counts(options, options.of<rl::SacOptions>());
  }

  void check_actions(const TrainOptions& options, const rl::Spec& spec) const override {
    if (std::holds_alternative<rl::Discrete>(spec.action)) return check_for_choices(options.of<rl::SacOptions>(), spec);
    if (!std::holds_alternative<rl::Box>(spec.action)) {
      throw ConfigError(concat(spec.id, " takes several choices at once, and sac learns one, or actions of a Box; use ",
                               "ppo, impala or appo"));
    }
    rl::check_family(rl::ActionFamily::kSquashedNormal, spec.action);
  }

  void set_agent(const TrainOptions& options, rl::OffPolicySetup& setup) const override {
    const auto& sac = options.of<rl::SacOptions>();
    setup.learning_rate = sac.learning_rate;
    setup.set_optimizers = [sac](learner::TeamOptions& team) { rl::Sac::set_optimizers(sac, team); };
    setup.make_agent = [sac, networks = network_options(options.policy, sac), set = setup.actor.instruction_set](
                           learner::Member member, rl::ActorCritic& policy) -> std::unique_ptr<rl::OffPolicyAgent> {
      if (auto* discrete = dynamic_cast<rl::DiscreteSacPolicy*>(&policy))
        return std::make_unique<rl::DiscreteSac>(std::move(member), *discrete, networks, sac, set);
      return std::make_unique<rl::Sac>(std::move(member), dynamic_cast<rl::SacPolicy&>(policy), networks, sac, set);
    };
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_sac() { return std::make_unique<SacAlgorithm>(); }

}  // namespace tandem::app
