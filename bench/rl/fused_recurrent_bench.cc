// Question: how long does one core take for loss and gradients of a PPO minibatch of sequences, in fused kernels and
// with autograd, and which share of the core's peak of multiply-adds do the kernels reach?
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
  rl::CellKind cell;
  std::int64_t size, sequences, steps;
};

// A policy with a hidden layer of the cell's size before each of its two cells, and the sequences of a minibatch.
class Sequences {
 public:
  explicit Sequences(const Case& with) : case_(with), rows_(with.sequences * with.steps) {
    at::manual_seed(1);
    rl::Spec spec;
    spec.id = "Bench-v0";
    spec.observation = {
        rl::Leaf{.name = "obs", .type = rl::ElementType::kFloat32, .shape = {kFeatures}, .low = {}, .high = {}}};
    spec.action = rl::Discrete{kActions};
    policy_ = std::make_shared<rl::RecurrentPolicy>(
        spec, rl::RecurrentPolicyOptions{.mlp = {.hidden = {with.size}}, .cell = with.cell, .size = with.size},
        at::detail::createCPUGenerator(1));
    clear_gradients();
    columns_ = {{"action", at::randint(kActions, {rows_}, at::kLong)},
                {"log_prob", at::full({rows_}, -0.7)},
                {"value", at::randn({rows_})},
                {"advantage", at::randn({rows_})},
                {"value_target", at::randn({rows_})},
                {"observation", at::randn({rows_, kFeatures})},
                {rl::kDoneColumn, at::rand({rows_}).lt(0.02).to(at::kByte)},
                {rl::kLearnedColumn, at::ones({rows_}, at::kByte)}};
    states_ = {{"state", at::randn({with.sequences, policy_->state_size()}).tanh()}};
    options_.entropy_coef = 0.01;
    options_.sequences = rl::SequenceOptions{.length = static_cast<int>(with.steps)};
    fused_ = std::make_unique<rl::FusedPpo<float>>(*policy_, detect_instruction_set());
  }

  double fuse() {
    const learner::ShardRows rows{
        .columns = columns_, .states = states_, .order = {}, .rows = rows_, .valid_rows = rows_};
    rl::PpoSums sums;
    return fused_->run(rows, options_, {}, sums).loss;
  }

  double differentiate() {
    clear_gradients();
    learner::ShardBatch batch;
    batch.rows = batch.valid_rows = rows_;
    batch.columns = columns_;
    batch.states = states_;
    rl::PpoSums sums;
    const learner::ShardLoss loss = rl::ppo_loss(*policy_, batch, options_, {}, sums);
    torch::autograd::backward({loss.loss}, {});
    return loss.loss.item<double>();
  }

  // Forward, and backward with respect to weights and, but for the first layer, to inputs: of two branches with heads.
  [[nodiscard]] double multiply_adds() const {
    const std::int64_t gates = (case_.cell == rl::CellKind::kLstm ? 4 : 3) * case_.size;
    const std::int64_t branch = 2 * kFeatures * case_.size + 3 * 2 * case_.size * gates;
    return static_cast<double>((2 * branch + 3 * case_.size * (kActions + 1)) * rows_);
  }

 private:
  static constexpr std::int64_t kFeatures = 2, kActions = 2;

  void clear_gradients() {
    for (const at::Tensor& parameter : policy_->parameters()) {
      at::Tensor held = parameter;
      held.mutable_grad() = at::zeros_like(parameter);
    }
  }

  const Case case_;
  const std::int64_t rows_;
  std::shared_ptr<rl::RecurrentPolicy> policy_;
  learner::Columns columns_, states_;
  rl::PpoOptions options_;
  std::unique_ptr<rl::FusedPpo<float>> fused_;
};

int run_case(const Case& with, Size size) {
  Sequences sequences(with);
  return measure_loss(with.name, sequences, size);
}

int run_all(Size size) {
  at::set_num_threads(1);
  int wrong = 0;
  for (const Case& each :
       {Case{"lstm 64, 4 x 32", rl::CellKind::kLstm, 64, 4, 32},
        Case{"lstm 64, 8 x 32", rl::CellKind::kLstm, 64, 8, 32}, Case{"gru 64, 8 x 32", rl::CellKind::kGru, 64, 8, 32},
        Case{"lstm 256, 16 x 32", rl::CellKind::kLstm, 256, 16, 32}}) {
    wrong |= run_case(each, size);
  }
  return wrong;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run_all); }
