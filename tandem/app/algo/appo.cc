// APPO to the program: IMPALA's pipeline with PPO's objective and a target network.
#include "tandem/app/algo/impala.h"

namespace tandem::app {
namespace {

void add_appo_options(OptionTable& table, rl::AppoOptions& appo) {
  const auto add = [&table](const char* key, auto& field, const char* help) -> Option& {
    return table.add(key, field, help).only_with("algo", "appo");
  };
  add("appo.clip_range", appo.clip_range, "The ratio of probabilities counts up to 1 +- this.").above(0);
  add("appo.kl_coef", appo.kl_coef, "Weight of the divergence from the target network.").at_least(0);
  add("appo.target_update_steps", appo.target_update_steps,
      "Learner steps after which the target network takes the policy's weights.")
      .within(1, kLargestCount);
}

// Rules, checks, batch and knobs are IMPALA's as they are; those functions read options of section "impala" only.
class Appo final : public Impala {
 public:
  [[nodiscard]] std::string name() const override { return "appo"; }

  void add_options(OptionTable& table, TrainOptions& options) const override {
    add_appo_options(table, options.of<rl::AppoOptions>());
  }

 private:
  [[nodiscard]] std::string title() const override { return "APPO"; }
  void set_loss(const TrainOptions& options, rl::ImpalaSetup& setup) const override {
    setup.appo = options.of<rl::AppoOptions>();
  }
};

}  // namespace

std::unique_ptr<const Algorithm> make_appo() { return std::make_unique<Appo>(); }

}  // namespace tandem::app
