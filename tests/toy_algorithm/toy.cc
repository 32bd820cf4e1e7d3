// The program `tandem` with an algorithm of its own: a (1+1) evolution strategy (Rechenberg, 1973; Schwefel, 1995).
//
//   toy train --algo toy --env CartPole-v1 --set toy.sigma=0.2
//
// An update draws a mutation of the best weights so far, plays rollout_steps steps of num_envs environments with it
// from fresh episodes, and keeps the mutation if no more episodes ended than under the best weights. The policy is one
// matrix: the action with the largest product wins. Everything that an update draws follows from the seed and the
// update's number, so a checkpoint needs neither random streams nor environments.
#include <algorithm>
#include <random>
#include <vector>

#include "tandem/app/algo/algorithms.h"
#include "tandem/app/program.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"

namespace {

namespace app = tandem::app;
namespace rl = tandem::rl;

struct ToyOptions {
  double sigma = 0.5;  // standard deviation of a mutation
  bool elitist = true;
};

class ToyRun final : public rl::TrainingRun {
 public:
  explicit ToyRun(const app::RunPlan& plan)
      : seed_(static_cast<std::uint64_t>(plan.options.seed)),
        steps_(plan.options.rollout_steps),
        toy_(plan.options.of<ToyOptions>()),
        ranks_(plan.ranks),
        envs_(plan.environments.make(plan.options.env, plan.options.num_envs)),
        buffers_(*envs_),
        inputs_(static_cast<std::size_t>(envs_->spec().observation.front().count())),
        actions_(static_cast<std::size_t>(std::get<rl::Discrete>(envs_->spec().action).n)),
        best_(at::zeros({static_cast<std::int64_t>(actions_), static_cast<std::int64_t>(inputs_)}, at::kDouble)) {}

  rl::RunReport update() override {
    const auto start = tandem::Clock::now();
    const at::Tensor candidate = mutation();
    const std::int64_t ends = play(candidate);
    if (!toy_.elitist || fewest_ends_ < 0 || ends <= fewest_ends_) {
      best_ = candidate;
      fewest_ends_ = ends;
    }
    ++updates_;
    rl::RunReport report;
    report.learning.policy_loss = static_cast<double>(ends);
    report.learning.minibatches = 1;
    report.sample_seconds = tandem::seconds_since(start);
    rl::report_episodes(episodes_, report);
    return report;
  }
  [[nodiscard]] bool all_reported() const override { return true; }

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  [[nodiscard]] std::int64_t env_steps() const override { return updates_ * steps_ * envs_->size(); }
  [[nodiscard]] const rl::EpisodeWindow& episodes() const override { return episodes_; }
  void listen_to_episodes(std::function<void(const rl::Episode&)> told) override { episodes_.listen(std::move(told)); }
  [[nodiscard]] const rl::Spec& spec() const override { return envs_->spec(); }
  [[nodiscard]] int replicas() const override { return 1; }
  [[nodiscard]] int shards() const override { return 1; }
  [[nodiscard]] const tandem::learner::Ranks& ranks() const override { return ranks_; }
  [[nodiscard]] std::string why_numbers_differ() const override { return ""; }
  [[nodiscard]] std::string gradients_by() const override { return "there are no gradients"; }
  [[nodiscard]] std::string params_sha256() override { return tandem::model::bytes_sha256({{"best", best_}}); }
  [[nodiscard]] std::string state_sha256() override { return tandem::model::state_sha256(state()); }
  [[nodiscard]] std::vector<tandem::learner::ReplicaTeam::Work> work() const override {
    return {{.rows = env_steps(), .cpu_seconds = 0}};
  }

  [[nodiscard]] tandem::learner::StateParts save() override {
    return {{"state", state()}, {"run", rl::run_part_of({updates_, fewest_ends_, episodes_.total()}, episodes_)}};
  }
  rl::RolloutWorker::Resumed load(const tandem::learner::ReadPart& read_part) override {
    best_ = rl::find(read_part("state"), "best", "state");
    const tandem::model::NamedTensors run = read_part("run");
    const std::vector<std::int64_t> counters = rl::counters_of(run, 3);
    updates_ = counters[0];
    fewest_ends_ = counters[1];
    rl::restore_episodes(run, counters[2], episodes_);
    return rl::RolloutWorker::Resumed::kExactly;
  }

 private:
  [[nodiscard]] tandem::model::NamedTensors state() const { return {{"best", best_}}; }

  [[nodiscard]] at::Tensor mutation() const {
    std::mt19937_64 random(seed_ * 1'000'003 + static_cast<std::uint64_t>(updates_));
    std::normal_distribution<double> normal(0, toy_.sigma);
    at::Tensor weights = best_.clone();
    std::for_each_n(weights.data_ptr<double>(), weights.numel(), [&](double& weight) { weight += normal(random); });
    return weights;
  }

  // Returns how many episodes ended.
  std::int64_t play(const at::Tensor& weights) {
    std::vector<std::uint64_t> seeds;
    for (std::size_t env = 0; env < buffers_.rows(); ++env)
      seeds.push_back((seed_ + static_cast<std::uint64_t>(updates_)) * 4096 + env);
    envs_->reset(seeds, buffers_.arrays());
    rl::EpisodeTracker tracker(static_cast<int>(buffers_.rows()), 0);
    std::vector<std::int64_t> chosen(buffers_.rows());
    for (int step = 0; step < steps_; ++step) {
      for (std::size_t row = 0; row < chosen.size(); ++row) chosen[row] = act(weights, row);
      envs_->step({.discrete = chosen.data()}, buffers_.arrays());
      tracker.record(step, buffers_.reward().data(), buffers_.terminated().data(), buffers_.truncated().data());
    }
    std::vector<rl::Episode> finished = tracker.finished();
    episodes_.add(finished);
    return static_cast<std::int64_t>(finished.size());
  }

  [[nodiscard]] std::int64_t act(const at::Tensor& weights, std::size_t row) const {
    const std::span<const float> seen = buffers_.observation<float>(row);
    const double* weight = weights.data_ptr<double>();
    std::vector<double> products(actions_, 0.0);
    for (double& product : products) {
      for (const float value : seen) product += value * *weight++;
    }
    return std::max_element(products.begin(), products.end()) - products.begin();
  }

  const std::uint64_t seed_;
  const int steps_;
  const ToyOptions toy_;
  const tandem::learner::Ranks ranks_;
  const std::unique_ptr<rl::EnvGroup> envs_;
  rl::EnvBuffers buffers_;
  const std::size_t inputs_, actions_;
  at::Tensor best_;
  std::int64_t updates_ = 0, fewest_ends_ = -1;
  rl::EpisodeWindow episodes_;
};

class Toy final : public app::Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "toy"; }

  void add_options(app::OptionTable& table, app::TrainOptions& options) const override {
    auto& toy = options.of<ToyOptions>();
    table.add("toy.sigma", toy.sigma, "Standard deviation of a mutation.").above(0).only_with("algo", "toy");
    table.add("toy.elitist", toy.elitist, "Keep a mutation only if it is no worse.").only_with("algo", "toy");
  }

  void check(app::Rules& rules) const override {
    if (rules.options().num_envs > 64) rules.fault("num_envs", "the toy plays at most 64 environments");
  }

  [[nodiscard]] std::vector<app::OptionCheck> checks(const app::CheckPlace& place) const override {
    return {{"env", [&environments = place.environments](const app::TrainOptions& options) {
               if (!std::holds_alternative<rl::Discrete>(environments.spec(options.env).action))
                 throw tandem::ConfigError("the toy takes environments with discrete actions");
             }}};
  }

  [[nodiscard]] app::BatchSize batch_size(const app::TrainOptions& options) const override {
    return {.env_steps = std::int64_t{options.num_envs} * options.rollout_steps};
  }

  [[nodiscard]] std::vector<app::Knob> knobs(const app::TrainOptions& given, const app::Machine&) const override {
    return {app::num_envs_knob(given)};
  }

  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const app::RunPlan& plan) const override {
    return std::make_unique<ToyRun>(plan);
  }
};

}  // namespace

int main(int argc, char** argv) {
  app::register_algorithm(std::make_unique<Toy>());
  return app::run_program(argc, argv, rl::EnvRegistry::native());
}
