// Question: how long does one core take for loss and gradients of a PPO minibatch, in fused kernels and with autograd,
// and which share of the core's peak of multiply-adds do the kernels reach?
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "bench/rl/beside_autograd.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo/ppo_loss.h"

namespace tandem::bench {
namespace {

struct Case {
  std::string name;
  std::vector<std::int64_t> hidden;
  std::int64_t features, actions, rows;
  rl::ActionFamily family;
};

// Two policies of one shape and the rows of a minibatch.
class Minibatch {
 public:
  explicit Minibatch(const Case& with) : rows_(with.rows) {
    at::manual_seed(1);
    rl::Spec spec;
    spec.id = "Bench-v0";
    spec.observation = {
        rl::Leaf{.name = "obs", .type = rl::ElementType::kFloat32, .shape = {with.features}, .low = {}, .high = {}}};
    const auto n = static_cast<std::size_t>(with.actions);
    const bool normal = with.family == rl::ActionFamily::kNormal;
    if (normal) {
      spec.action = rl::Box{std::vector<double>(n, -1), std::vector<double>(n, 1)};
    } else {
      spec.action = rl::Discrete{with.actions};
    }
    policy_ = std::make_shared<rl::MlpPolicy>(spec, rl::MlpPolicyOptions{.hidden = with.hidden},
                                              at::detail::createCPUGenerator(1));
    for (const at::Tensor& parameter : policy_->parameters()) {
      at::Tensor held = parameter;
      held.mutable_grad() = at::zeros_like(parameter);
    }
    const at::Tensor action = normal ? at::randn({rows_, with.actions}) : at::randint(with.actions, {rows_}, at::kLong);
    columns_ = {{"action", action},
                {"log_prob", at::full({rows_}, normal ? -1.4 * static_cast<double>(n) : -0.7)},
                {"value", at::randn({rows_})},
                {"advantage", at::randn({rows_})},
                {"value_target", at::randn({rows_})},
                {"observation", at::randn({rows_, with.features})}};
    options_.entropy_coef = 0.01;
    fused_ = std::make_unique<rl::FusedPpo<float>>(*policy_, detect_instruction_set());
  }

  double fuse() {
    const learner::ShardRows rows{.columns = columns_, .states = {}, .order = {}, .rows = rows_, .valid_rows = rows_};
    rl::PpoSums sums;
    return fused_->run(rows, options_, {}, sums).loss;
  }

  double differentiate() {
    for (const at::Tensor& parameter : policy_->parameters()) {
      at::Tensor held = parameter;
      held.mutable_grad().zero_();
    }
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = rows_;
    batch.columns = columns_;
    rl::PpoSums sums;
    const learner::ShardLoss loss = rl::ppo_loss(*policy_, batch, options_, {}, sums);
    torch::autograd::backward({loss.loss}, {});
    return loss.loss.item<double>();
  }

  // Forward, and backward with respect to weights and, but for the first layer, to inputs.
  [[nodiscard]] double multiply_adds() const {
    double count = 0;
    for (const rl::Mlp* net : {&policy_->actor(), &policy_->critic()}) {
      const std::vector<std::int64_t>& sizes = net->options().sizes;
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
        count += (i == 0 ? 2.0 : 3.0) * static_cast<double>(sizes[i] * sizes[i + 1] * rows_);
    }
    return count;
  }

 private:
  std::int64_t rows_;
  std::shared_ptr<rl::MlpPolicy> policy_;
  learner::Columns columns_;
  rl::PpoOptions options_;
  std::unique_ptr<rl::FusedPpo<float>> fused_;
};

int run_case(const Case& with, Size size) {
  Minibatch minibatch(with);
  return measure_loss(with.name, minibatch, size);
}

int run_all(Size size) {
  at::set_num_threads(1);
  int wrong = 0;
  for (const Case& each : {Case{"64x64, 128 rows", {64, 64}, 4, 2, 128, rl::ActionFamily::kCategorical},
                           Case{"64x64, 256 rows", {64, 64}, 4, 2, 256, rl::ActionFamily::kCategorical},
                           Case{"64x64, 1024 rows", {64, 64}, 4, 2, 1024, rl::ActionFamily::kCategorical},
                           Case{"64x64 normal, 256 rows", {64, 64}, 3, 1, 256, rl::ActionFamily::kNormal},
                           Case{"256x256 normal, 2048 rows", {256, 256}, 17, 6, 2048, rl::ActionFamily::kNormal}}) {
    wrong |= run_case(each, size);
  }
  return wrong;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run_all); }
