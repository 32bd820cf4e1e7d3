// TD3 and DDPG to the program, in the order of Algorithm's functions; what all algorithms with a replay have is in
// off_policy.cc.
#include "tandem/rl/algo/td3/td3.h"

#include "tandem/app/algo/native.h"
#include "tandem/app/algo/off_policy.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

class Td3Algorithm : public OffPolicyAlgorithm {
 public:
  [[nodiscard]] std::string name() const override { return "td3"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    auto& td3 = options.of<rl::Td3Options>();
    OptionSection section(table, "td3", {"algo", {"td3", "ddpg"}});
    add_off_policy_options(section, td3);
    section.add("learning_rate", td3.learning_rate, "Of Adam, for the actor.").above(0).at_most(1);
    section.add("critic_learning_rate", td3.critic_learning_rate, "Of Adam, for the critics; auto: learning_rate.")
        .above(0)
        .at_most(1)
        .absent_as("auto");
    add_critic_options(section, td3);
    section.add("policy_every", td3.policy_every, "Steps of the critics for one of the actor and the targets.")
        .within(1, kLargestCount);
    section
        .add("exploration_noise", td3.exploration_noise,
             "Deviation of the noise on actions that explore, where -1 and 1 are the bounds.")
        .above(0);
    section
        .add("noise_correlation", td3.noise_correlation,
             "Part of this noise that stays in that of the next step (an Ornstein-Uhlenbeck process).")
        .within(0, 0.999);
    section.add("target_noise", td3.target_noise, "Deviation of the noise on the targets' actions.").at_least(0);
    section.add("target_noise_clip", td3.target_noise_clip, "Most that this noise counts.").above(0);
  }

  void check(Rules& rules) const override {
    OffPolicyAlgorithm::check(rules);
    rules.count_faults(section(), rl::critic_faults(rules.options().of<rl::Td3Options>()));
  }

  [[nodiscard]] std::function<std::shared_ptr<rl::ActorCritic>(const rl::Spec&, at::Generator)> policy_factory(
      const TrainOptions& options, const PolicySettings& settings) const override {
    return [networks = network_options(settings, options.of<rl::Td3Options>()), td3 = options.of<rl::Td3Options>()](
               const rl::Spec& spec, at::Generator generator) {
      return std::make_shared<rl::Td3Policy>(spec, networks, td3.critics, td3.exploration_noise, std::move(generator));
    };
  }

 protected:
  [[nodiscard]] rl::OffPolicyOptions off_policy_options(const TrainOptions& options) const override {
    return with_counts(options, options.of<rl::Td3Options>());
  }

  void check_actions(const TrainOptions& /*options*/, const rl::Spec& spec) const override {
    if (!std::holds_alternative<rl::Box>(spec.action)) {
      throw ConfigError(concat(spec.id, " takes choices, and ", name(),
                               " learns actions of a Box; use dqn, sac, ppo, impala or appo"));
    }
    rl::check_family(rl::ActionFamily::kSquashedNormal, spec.action);
  }

  void set_agent(const TrainOptions& options, rl::OffPolicySetup& setup) const override {
    const auto& td3 = options.of<rl::Td3Options>();
    setup.learning_rate = td3.learning_rate;
    setup.set_optimizers = [td3](learner::TeamOptions& team) { rl::Td3::set_optimizers(td3, team); };
    setup.make_agent = [td3, networks = network_options(options.policy, td3), set = setup.actor.instruction_set](
                           learner::Member member, rl::ActorCritic& policy) {
      return std::make_unique<rl::Td3>(std::move(member), dynamic_cast<rl::Td3Policy&>(policy), networks, td3, set);
    };
  }
};

// TD3 with one critic, an actor that learns in every turn and targets without noise, as its shipped settings say.
class Ddpg final : public Td3Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "ddpg"; }
  void add_options(OptionTable&, TrainOptions&) const override {}

 private:
  [[nodiscard]] std::string section() const override { return "td3"; }
};

}  // namespace

std::unique_ptr<const Algorithm> make_td3() { return std::make_unique<Td3Algorithm>(); }
std::unique_ptr<const Algorithm> make_ddpg() { return std::make_unique<Ddpg>(); }

}  // namespace tandem::app
