// DQN to the program, in the order of Algorithm's functions; what all algorithms with a replay have is in
// off_policy.cc.
#include "tandem/rl/algo/dqn/dqn.h"

#include "tandem/app/algo/native.h"
#include "tandem/app/algo/off_policy.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

template <>
inline constexpr auto kChoices<rl::DqnTarget> = words_up_to<rl::DqnTarget::kDouble>("max", "double");
template <>
inline constexpr auto kChoices<rl::DqnStreams> = words_up_to<rl::DqnStreams::kDueling>("one", "dueling");
template <>
inline constexpr auto kChoices<rl::DqnReturn> = words_up_to<rl::DqnReturn::kQuantiles>("mean", "categorical",
                                                                                       "quantiles");
template <>
inline constexpr auto kChoices<rl::DqnExploration> = words_up_to<rl::DqnExploration::kNoisy>("epsilon", "noisy");

namespace {

class DqnAlgorithm final : public OffPolicyAlgorithm {
 public:
  [[nodiscard]] std::string name() const override { return "dqn"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    auto& dqn = options.of<rl::DqnOptions>();
    OptionSection section(table, "dqn", {"algo", {"dqn"}});
    add_off_policy_options(section, dqn);
    section.add("learning_rate", dqn.learning_rate, "Of Adam.").above(0).at_most(1);
    section.add("target", dqn.target,
                "Who chooses the action that a target is bootstrapped with: max, the target network; double, the one "
                "that learns.");
    section.add("streams", dqn.streams,
                "one network for all actions; dueling: one for the state's value and one for their advantages.");
    section.add("returns", dqn.returns,
                "What is learned of a return: its mean; categorical, its distribution over fixed values (C51); its "
                "quantiles (QR-DQN).");
    section.add("atoms", dqn.atoms, "Fixed values, or quantiles.")
        .within(2, 1000)
        .only_with({"dqn.returns", {"categorical", "quantiles"}});
    section.add("least_return", dqn.least_return, "The least of the fixed values.")
        .only_with("dqn.returns", "categorical");
    section.add("most_return", dqn.most_return, "The largest of them.").only_with("dqn.returns", "categorical");
    section.add("exploration", dqn.exploration,
                "epsilon: a share of actions is drawn evenly; noisy: weights have a learned noise (noisy nets).");
    section
        .add("first_deviation", dqn.first_deviation, "Noise of a weight at first, times the root of a layer's inputs.")
        .above(0)
        .only_with("dqn.exploration", "noisy");
    section.add("first_epsilon", dqn.first_epsilon, "Share of actions that are drawn evenly at first.")
        .within(0, 1)
        .only_with("dqn.exploration", "epsilon");
    section.add("last_epsilon", dqn.last_epsilon, "The same later on.")
        .within(0, 1)
        .only_with("dqn.exploration", "epsilon");
    section.add("epsilon_share", dqn.epsilon_share, "Share of the run from the one to the other.")
        .within(0, 1)
        .only_with("dqn.exploration", "epsilon");
  }

  void check(Rules& rules) const override {
    OffPolicyAlgorithm::check(rules);
    const auto& dqn = rules.options().of<rl::DqnOptions>();
    if (dqn.returns == rl::DqnReturn::kCategorical && !(dqn.least_return < dqn.most_return))
      rules.fault("dqn.least_return", concat("must be below dqn.most_return, which is ", dqn.most_return));
  }

  [[nodiscard]] std::function<std::shared_ptr<rl::ActorCritic>(const rl::Spec&, at::Generator)> policy_factory(
      const TrainOptions& options, const PolicySettings& settings) const override {
    return [networks = network_options(settings), dqn = options.of<rl::DqnOptions>()](const rl::Spec& spec,
                                                                                      at::Generator generator) {
      return std::make_shared<rl::DqnPolicy>(spec, networks, dqn, std::move(generator));
    };
  }

 protected:
  [[nodiscard]] rl::OffPolicyOptions off_policy_options(const TrainOptions& options) const override {
    return with_counts(options, options.of<rl::DqnOptions>());
  }

  void check_actions(const TrainOptions& /*options*/, const rl::Spec& spec) const override {
    if (std::holds_alternative<rl::Discrete>(spec.action)) return;
    throw ConfigError(concat(spec.id, " takes no single choice, and dqn learns the values of one; use ",
                             std::holds_alternative<rl::Box>(spec.action) ? "sac, td3 or ppo" : "ppo, impala or appo"));
  }

  void set_agent(const TrainOptions& options, rl::OffPolicySetup& setup) const override {
    const auto& dqn = options.of<rl::DqnOptions>();
    setup.learning_rate = dqn.learning_rate;
    setup.set_optimizers = [dqn](learner::TeamOptions& team) { rl::Dqn::set_optimizers(dqn, team); };
    setup.make_agent = [dqn, networks = network_options(options.policy), set = setup.actor.instruction_set](
                           learner::Member member, rl::ActorCritic& policy) {
      return std::make_unique<rl::Dqn>(std::move(member), dynamic_cast<rl::DqnPolicy&>(policy), networks, dqn, set);
    };
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_dqn() { return std::make_unique<DqnAlgorithm>(); }

}  // namespace tandem::app
