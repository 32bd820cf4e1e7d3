#include "tandem/rl/policy/recurrent_policy.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/init.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {
namespace {

// More units are a mistake in the configuration, and would take gigabytes.
constexpr std::int64_t kLargestCell = 65536;

std::shared_ptr<Mlp> make_head(std::int64_t inputs, std::int64_t outputs, double gain, at::Generator generator) {
  return std::make_shared<Mlp>(Mlp::Options{.sizes = {inputs, outputs}, .last_gain = gain}, std::move(generator));
}

}  // namespace

RecurrentCell::RecurrentCell(CellKind kind, std::int64_t inputs, std::int64_t size, at::Generator generator)
    : kind_(kind), size_(size) {
  weight_ih_ = register_parameter("weight_ih", at::empty({gates() * size, inputs}));
  weight_hh_ = register_parameter("weight_hh", at::empty({gates() * size, size}));
  bias_ih_ = register_parameter("bias_ih", at::zeros({gates() * size}));
  bias_hh_ = register_parameter("bias_hh", at::zeros({gates() * size}));
  model::init_orthogonal(weight_ih_, 1, generator);
  model::init_orthogonal(weight_hh_, 1, generator);
}

// Step by step, since each needs the state of the one before. `begins` says on the CPU in which steps any episode
// begins, so that other steps are spared the product with `keep`; on a device this waits once for all steps.
RecurrentCell::Output RecurrentCell::forward(const at::Tensor& x, const at::Tensor& state, const at::Tensor& start) {
  const std::int64_t steps = x.size(0), rows = x.size(1);
  TANDEM_CHECK(state.dim() == 2 && state.size(0) == rows && state.size(1) == state_size(), "states ", state.sizes(),
               " for inputs ", x.sizes());
  // The products with the inputs do not depend on the state, so one product serves all steps.
  const at::Tensor of_inputs = at::linear(x.flatten(0, 1), weight_ih_, bias_ih_).view({steps, rows, -1});
  at::Tensor keep, begins;
  if (start.defined()) {
    keep = (start == 0).to(x.scalar_type()).unsqueeze(-1);
    begins = (start != 0).any(1).to(at::kCPU);
  }
  Kept kept{.output = state.narrow(1, 0, size_), .memory = {}};
  if (kind_ == CellKind::kLstm) kept.memory = state.narrow(1, size_, size_);
  std::vector<at::Tensor> outputs;
  for (std::int64_t t = 0; t < steps; ++t) {
    if (begins.defined() && begins.const_data_ptr<bool>()[t]) {
      kept.output = kept.output * keep[t];
      if (kept.memory.defined()) kept.memory = kept.memory * keep[t];
    }
    kept = kind_ == CellKind::kLstm ? step_lstm(of_inputs[t], kept) : step_gru(of_inputs[t], kept);
    outputs.push_back(kept.output);
  }
  return {.steps = at::stack(outputs),
          .state = kept.memory.defined() ? at::cat({kept.output, kept.memory}, 1) : kept.output};
}

// The gates are input, forget, proposed value and output, in torch's order:
//   memory' = forget memory + input tanh(proposed),  output' = out tanh(memory').
RecurrentCell::Kept RecurrentCell::step_lstm(const at::Tensor& of_input, const Kept& before) const {
  const at::Tensor gates = of_input + at::linear(before.output, weight_hh_, bias_hh_);
  const at::Tensor in_and_forget = gates.narrow(1, 0, 2 * size_).sigmoid();
  const at::Tensor proposed = gates.narrow(1, 2 * size_, size_).tanh();
  const at::Tensor out = gates.narrow(1, 3 * size_, size_).sigmoid();
  const at::Tensor memory =
      at::addcmul(in_and_forget.narrow(1, size_, size_) * before.memory, in_and_forget.narrow(1, 0, size_), proposed);
  return {.output = out * memory.tanh(), .memory = memory};
}

// The gates are reset, update and proposed value, in torch's order:
//   proposed = tanh(of input + reset of output),  output' = update output + (1 - update) proposed.
RecurrentCell::Kept RecurrentCell::step_gru(const at::Tensor& of_input, const Kept& before) const {
  const at::Tensor of_output = at::linear(before.output, weight_hh_, bias_hh_);
  const at::Tensor gates = (of_input.narrow(1, 0, 2 * size_) + of_output.narrow(1, 0, 2 * size_)).sigmoid();
  const at::Tensor reset = gates.narrow(1, 0, size_), update = gates.narrow(1, size_, size_);
  const at::Tensor proposed =
      at::addcmul(of_input.narrow(1, 2 * size_, size_), reset, of_output.narrow(1, 2 * size_, size_)).tanh();
  return {.output = at::lerp(proposed, before.output, update), .memory = {}};
}

RecurrentBranch::RecurrentBranch(std::int64_t inputs, const RecurrentPolicyOptions& options, at::Generator generator)
    : mlp(register_module("mlp", std::make_shared<Mlp>(Mlp::Options{.sizes = layer_sizes(inputs, options.mlp.hidden),
                                                                    .activation = options.mlp.activation,
                                                                    .last = Mlp::LastLayer::kActivated,
                                                                    .gain = options.mlp.hidden_gain},
                                                       generator))),
      cell(register_module("cell", std::make_shared<RecurrentCell>(options.cell, mlp->options().sizes.back(),
                                                                   options.size, generator))) {}

// The order below is the order in which weights are drawn and parameters are registered, which checkpoints depend on.
RecurrentPolicy::RecurrentPolicy(const Spec& spec, const RecurrentPolicyOptions& options, at::Generator generator)
    : RecurrentActorCritic(spec, options.mlp.family.value_or(usual_family(spec.action))),
      encoder_(std::make_shared<Encoder>(spec, options.mlp.torso, generator)) {
  check_options(options.mlp);
  if (encoder_->has_torso()) register_module("torso", encoder_);
  if (options.size < 1 || options.size > kLargestCell)
    throw ConfigError(concat("policy: a recurrent cell of size ", options.size, "; it must be 1 .. ", kLargestCell));
  const auto add_branch = [&](const char* name) {
    branches_.push_back(register_module(name, std::make_shared<RecurrentBranch>(encoder_->size(), options, generator)));
  };
  if (options.mlp.trunks == Trunks::kShared) {
    add_branch("trunk");
  } else {
    add_branch("actor");
    add_branch("critic");
  }
  action_head_ = register_module("action_head",
                                 make_head(options.size, head_size(spec.action), options.mlp.policy_gain, generator));
  value_head_ = register_module("value_head", make_head(options.size, 1, options.mlp.value_gain, generator));
  if (std::holds_alternative<Box>(spec.action))
    log_std_ = register_parameter("log_std", first_log_std(*this, options.size, options.mlp.log_std_init));
}

std::int64_t RecurrentPolicy::state_size() const {
  return static_cast<std::int64_t>(branches_.size()) * branches_.front()->cell->state_size();
}

// Features and hidden layers run over all T * S rows at once; only the cells go step by step. Each branch has its
// columns of the state. The first branch serves the actor and the last one the critic; a shared branch is both.
SequenceOutput RecurrentPolicy::forward_sequences(const SequenceInput& input) {
  const at::Tensor features = encoder_->encode(input.observation);
  const std::int64_t sequences = input.state.size(0), steps = features.size(0) / sequences;
  std::vector<at::Tensor> latents, states;
  for (const auto& branch : branches_) {
    const std::int64_t size = branch->cell->state_size();
    const at::Tensor before = input.state.narrow(1, static_cast<std::int64_t>(states.size()) * size, size);
    const at::Tensor x = branch->mlp->forward(features).view({steps, sequences, -1});
    RecurrentCell::Output output = branch->cell->forward(x, before, input.start);
    latents.push_back(output.steps.flatten(0, 1));
    states.push_back(std::move(output.state));
  }
  const at::Tensor& latent = latents.front();
  SequenceOutput result{.output = {.action_parameters = {action_head_->forward(latent)},
                                   .value = value_head_->forward(latents.back()).squeeze(-1)},
                        .state = at::cat(states, 1)};
  // Detached, as MlpPolicy's: the noise follows the features and does not shape them.
  if (family() == ActionFamily::kStateDependentNoise) result.output.action_parameters.push_back(latent.detach());
  if (log_std_.defined()) result.output.action_parameters.push_back(log_std_);
  return result;
}

PolicyScript RecurrentPolicy::script() const {
  throw ConfigError(
      "a recurrent policy cannot be exported to TorchScript, whose policy() has no place for what it remembers; export "
      "it as .onnx or .h, which have one, or the weights alone as .safetensors");
}

ActingNet RecurrentPolicy::acting_net() const {
  const RecurrentBranch& branch = *branches_.front();
  ActingNet net(*encoder_);
  const std::size_t hidden = net.add(*branch.mlp, 0);
  const std::size_t output =
      net.add({.kind = ActingStep::Kind::kRemember, .in = hidden, .cell = branch.cell.get()}, branch.cell->size());
  (void)net.add(*action_head_, output);
  return net;
}

PolicyFactory recurrent_policy_factory(RecurrentPolicyOptions options) {
  return [options = std::move(options)](const Spec& spec, at::Generator generator) {
    return std::make_shared<RecurrentPolicy>(spec, options, std::move(generator));
  };
}

}  // namespace tandem::rl
