#include "tandem/rl/policy/recurrent_policy.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// More units are a mistake in the configuration, and would take gigabytes.
constexpr std::int64_t kLargestCell = 65536;

std::shared_ptr<Mlp> make_head(std::int64_t inputs, std::int64_t outputs, double gain, at::Generator generator) {
  return std::make_shared<Mlp>(Mlp::Options{.sizes = {inputs, outputs}, .last_gain = gain}, std::move(generator));
}

}  // namespace

RecurrentPolicy::Branch::Branch(std::int64_t inputs, const RecurrentPolicyOptions& options, at::Generator generator) {
  std::vector<std::int64_t> sizes{inputs};
  sizes.insert(sizes.end(), options.mlp.hidden.begin(), options.mlp.hidden.end());
  mlp = register_module("mlp", std::make_shared<Mlp>(Mlp::Options{.sizes = sizes,
                                                                  .activation = options.mlp.activation,
                                                                  .last = Mlp::LastLayer::kActivated,
                                                                  .gain = options.mlp.hidden_gain},
                                                     generator));
  cell = register_module("cell", std::make_shared<RecurrentCell>(options.cell, sizes.back(), options.size, generator));
}

// The order below is the order in which weights are drawn and parameters are registered, which checkpoints depend on.
RecurrentPolicy::RecurrentPolicy(const Spec& spec, const RecurrentPolicyOptions& options, at::Generator generator)
    : RecurrentActorCritic(spec, options.mlp.family.value_or(usual_family(spec.action))),
      encoder_(std::make_shared<Encoder>(spec, options.mlp.torso, generator)) {
  check_options(options.mlp);
  if (encoder_->has_torso()) register_module("torso", encoder_);
  if (options.size < 1 || options.size > kLargestCell)
    throw ConfigError(concat("policy: a recurrent cell of size ", options.size, "; it must be 1 .. ", kLargestCell));
  const auto add_branch = [&](const char* name) {
    branches_.push_back(register_module(name, std::make_shared<Branch>(encoder_->size(), options, generator)));
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
      "the weights alone as .safetensors instead");
}

PolicyFactory recurrent_policy_factory(RecurrentPolicyOptions options) {
  return [options = std::move(options)](const Spec& spec, at::Generator generator) {
    return std::make_shared<RecurrentPolicy>(spec, options, std::move(generator));
  };
}

}  // namespace tandem::rl
