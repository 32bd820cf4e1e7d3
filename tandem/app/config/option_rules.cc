#include "tandem/app/config/option_rules.h"

#include <algorithm>
#include <initializer_list>

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

class Rules {
 public:
  Rules(const TrainOptions& options, const OptionTable& table, int replicas)
      : options_(options), table_(table), replicas_(replicas) {}

  std::vector<std::string> faults() {
    check_env();
    check_counts();
    check_gradient_check();
    check_effects();
    return std::move(faults_);
  }

 private:
  void fault(std::string_view key, const std::string& problem) { faults_.push_back(table_.fault(key, problem)); }

  void check_env() {
    if (!options_.env.empty() || table_.at("env").is_faulty()) return;
    fault("env", "name an environment, e.g. --env CartPole-v1; `tandem envs` lists them");
  }

  void check_counts() {
    if (!is_ppo(options_.algo)) return check_impala();
    check_objective();
    check_shrinking();
    check_batch_mode();
    if (options_.algo == Algorithm::kDdPpo) {
      check_dd_ppo();
      check_stragglers();
    }
    if (any_faulty({"num_envs", "rollout_steps", "shards", "devices", "ppo.minibatches", "ppo.minibatch_size",
                    "policy.recurrent", "policy.max_seq_len", "policy.burn_in"})) {
      return;
    }
    for (const rl::CountFault& problem :
         rl::count_faults(ppo_options(options_), options_.shards.value_or(1), replicas_)) {
      const std::string key = table_.find(problem.key) != nullptr ? problem.key : "ppo." + problem.key;
      fault(key, problem.problem);
    }
  }

  void check_gradient_check() {
    if (any_faulty({"gradient_check", "strategy"}) || options_.strategy != sync::StrategyKind::kSyncReplicas) return;
    if (options_.gradient_check == sync::GradientCheck::kSum) return;
    fault("gradient_check", "sync_replicas looks at each replica's gradient as it is; leave it at sum");
  }

  void check_objective() {
    if (any_faulty({"ppo.kl_coef", "ppo.kl_coef_target", "ppo.entropy_coef", "ppo.entropy_coef_schedule"})) return;
    if (options_.ppo.kl_coef_target && options_.ppo.kl_coef == 0)
      fault("ppo.kl_coef_target", "has no effect without a ppo.kl_coef above 0 to begin with; 0.2 is usual");
    if (options_.ppo.entropy_coef_schedule != rl::Schedule::kConstant && options_.ppo.entropy_coef == 0)
      fault("ppo.entropy_coef_schedule", "has no effect without a ppo.entropy_coef above 0");
  }

  void check_dd_ppo() {
    const sync::StrategyKind strategy = options_.strategy;
    if (strategy == sync::StrategyKind::kAsynchronous || strategy == sync::StrategyKind::kSyncReplicas) {
      fault("strategy",
            "steps of DD-PPO are made of the gradients of all ranks; use replicated or divided, or algo: ppo");
    } else if (strategy == sync::StrategyKind::kParameterServer) {
      fault("strategy", "DD-PPO has no parameter server; use replicated or divided, or algo: ppo");
    }
  }

  void check_stragglers() {
    if (any_faulty({"dd_ppo.stragglers", "dd_ppo.least_frac", "num_envs", "rollout_steps", "shards"})) return;
    const DdPpoSettings& dd_ppo = options_.dd_ppo;
    if (dd_ppo.stragglers.policy == pipeline::Stragglers::kWaitAll || dd_ppo.replay) return;
    check_that_rollouts_can_end_early();
  }

  void check_batch_mode() {
    if (!options_.ppo.completes_episodes() || any_faulty({"ppo.batch_mode"})) return;
    if (options_.algo == Algorithm::kDdPpo && !any_faulty({"dd_ppo.stragglers"}) &&
        options_.dd_ppo.stragglers.policy != pipeline::Stragglers::kWaitAll) {
      fault("ppo.batch_mode",
            concat("a rollout that ends early, as dd_ppo.stragglers: ", word_of(options_.dd_ppo.stragglers.policy),
                   " has it, cuts episodes; use wait_all, or truncate_episodes"));
    } else if (options_.algo == Algorithm::kDdPpo && options_.dd_ppo.replay) {
      fault("ppo.batch_mode", "the record of dd_ppo.replay says where rollouts end; use truncate_episodes");
    } else if (options_.survivors == Survivors::kShrink) {
      fault("ppo.batch_mode", "who rests is recorded with survivors: shrink by numbers of steps; use take_over");
    }
  }

  void check_shrinking() {
    if (options_.survivors != Survivors::kShrink || any_faulty({"survivors"})) return;
    if (options_.algo != Algorithm::kDdPpo) {
      fault("survivors", "updates of fewer rows are DD-PPO's (algo: dd_ppo); those of PPO take_over");
    } else if (options_.dd_ppo.replay) {
      fault("survivors", "a replay makes the steps of its record, whoever is left; use take_over, or leave it out");
    }
  }

  // A rule that could only speak when all have finished would do nothing.
  void check_that_rollouts_can_end_early() {
    const pipeline::StragglerOptions& stragglers = options_.dd_ppo.stragglers;
    const auto groups = static_cast<double>(options_.shards.value_or(1));
    if (groups == 1) {
      fault("dd_ppo.stragglers", "there is one env group, as many as shards, and nobody waits for it; use wait_all");
    } else if (stragglers.policy == pipeline::Stragglers::kPreempt && stragglers.sync_frac * groups > groups - 1) {
      fault("dd_ppo.sync_frac",
            concat("of ", groups, " env groups, as many as shards, that is all of them, and rollouts would never end ",
                   "early; ask for at most ", (groups - 1) / groups, ", use more shards, or wait_all"));
    }
  }

  // And APPO, which has its options.
  void check_impala() {
    const std::string who = options_.algo == Algorithm::kAppo ? "APPO" : "IMPALA";
    if (any_faulty({"num_envs", "shards", "devices", "impala.workers", "impala.splits", "impala.loaders",
                    "impala.buffers", "impala.c_clip", "impala.rho_clip"})) {
      return;
    }
    for (const rl::CountFault& problem :
         rl::count_faults(impala_options(options_), options_.shards.value_or(1), replicas_)) {
      const std::string key = table_.find(problem.key) != nullptr ? problem.key : "impala." + problem.key;
      fault(key, problem.problem);
    }
    if (!any_faulty({"strategy"}) && replicas_ > 1 && sync::depends_on_speed(options_.strategy)) {
      fault("strategy",
            concat("all ", replicas_, " replicas of ", who,
                   "'s learner make each step; use replicated, divided or parameter_server, or one replica"));
    }
    if (!options_.impala.max_policy_lag && options_.impala.beyond_lag == pipeline::BeyondLag::kDrop)
      fault("impala.beyond_lag", "has no effect without impala.max_policy_lag");
    if (options_.policy.burn_in > 0 && table_.has_effect(table_.at("policy.burn_in")))
      fault("policy.burn_in", who + " brings states up to date by itself: it runs whole fragments; leave it 0");
  }

  // An option that was asked for and would do nothing is a fault: someone expects something of it.
  void check_effects() {
    for (const auto& option : table_.options()) {
      if (option->origin().layer < Layer::kFile || table_.has_effect(*option)) continue;
      const Option::Needed& needed = option->needed();
      if (table_.at(needed.key).is_faulty()) continue;
      std::string texts;
      for (const std::string& text : needed.texts) texts += concat(texts.empty() ? "" : " or ", text);
      fault(option->key(), concat("has no effect without ", needed.key, ": ", texts));
    }
  }

  [[nodiscard]] bool any_faulty(std::initializer_list<std::string_view> keys) const {
    return std::any_of(keys.begin(), keys.end(), [this](std::string_view key) { return table_.at(key).is_faulty(); });
  }

  const TrainOptions& options_;
  const OptionTable& table_;
  const int replicas_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas) {
  return Rules(options, table, replicas).faults();
}

}  // namespace tandem::app
