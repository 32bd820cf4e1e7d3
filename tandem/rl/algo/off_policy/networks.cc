#include "tandem/rl/algo/off_policy/networks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/model/init.h"
#include "tandem/model/shard_random.h"

namespace tandem::rl {

// The orthogonal weights that an Mlp begins with are overwritten.
std::shared_ptr<Mlp> make_network(const NetworkOptions& options, std::int64_t inputs, std::int64_t outputs,
                                  at::Generator& generator, Mlp::Norm norm) {
  const Mlp::Options layers{
      .sizes = layer_sizes(inputs, options.hidden, outputs), .activation = options.activation, .norm = norm};
  auto network = std::make_shared<Mlp>(layers, generator);
  for (const torch::nn::Linear& layer : network->layers())
    model::init_uniform_fan_in(layer->weight, layer->bias, generator);
  return network;
}

namespace {

// Mlp::forward() once more. `use`: what becomes of each parameter.
template <typename Use>
at::Tensor run_layers(const Mlp& network, at::Tensor x, double dropout, const Use& use) {
  for (std::size_t i = 0; i < network.layers().size(); ++i) {
    const torch::nn::Linear& layer = network.layers()[i];
    x = at::linear(x, use(layer->weight), use(layer->bias));
    if (!network.is_activated(i)) continue;
    if (dropout > 0) {
      // Drawn on the CPU, since the shard's generator is.
      at::Tensor kept = at::empty(x.sizes(), at::TensorOptions(x.scalar_type()));
      kept.bernoulli_(1 - dropout, model::current_generator()).div_(1 - dropout);
      x = x * kept.to(x.device());
    }
    if (!network.norms().empty()) {
      const torch::nn::LayerNorm& norm = network.norms()[i];
      x = at::layer_norm(x, {x.size(1)}, use(norm->weight), use(norm->bias), norm->options.eps());
    }
    x = activate(network.options().activation, x);
  }
  return x;
}

}  // namespace

at::Tensor forward_dropped(const Mlp& network, at::Tensor x, double dropout) {
  return run_layers(network, std::move(x), dropout, [](const at::Tensor& parameter) { return parameter; });
}

at::Tensor forward_frozen(const Mlp& network, at::Tensor x, double dropout) {
  return run_layers(network, std::move(x), dropout, [](const at::Tensor& parameter) { return parameter.detach(); });
}

ObservationNetwork::ObservationNetwork(const Spec& spec, const NetworkOptions& options, std::int64_t outputs,
                                       at::Generator& generator)
    : encoder_(std::make_shared<Encoder>(spec, options.torso, generator)) {
  if (encoder_->has_torso()) register_module("torso", encoder_);
  net_ = register_module("net", make_network(options, encoder_->size(), outputs, generator));
}

// An encoder gives float32. A network may be in float64, which formulas are compared in.
at::Tensor ObservationNetwork::forward(const Observation& observation) {
  return net_->forward(encoder_->encode(observation).to(net_->layers().front()->weight.scalar_type()));
}

FlatFeatures::Script ObservationNetwork::script(const std::string& name, const std::string& result) const {
  FlatFeatures::Script all = encoder_->script(name + ".torso");
  all.statements +=
      concat("    ", result, " = features\n") + script_of(*net_, name + ".net", result, net_->layers().size());
  return all;
}

// One encoder serves all networks: it is what they see, and only images have parameters in it.
ActionValues::ActionValues(const Spec& spec, const NetworkOptions& options, int count, at::Generator& generator)
    : encoder_(std::make_shared<Encoder>(spec, options.torso, generator)), dropout_(options.critic_dropout) {
  if (has_torso()) register_module("torso", encoder_);
  const std::int64_t inputs = features() + action_elements(spec.action);
  const Mlp::Norm norm = options.critic_norm == CriticNorm::kLayer ? Mlp::Norm::kLayer : Mlp::Norm::kNone;
  for (int i = 0; i < count; ++i)
    networks_.push_back(register_module(std::to_string(i), make_network(options, inputs, 1, generator, norm)));
}

at::Tensor ActionValues::encode(const Observation& observation) {
  return encoder_->encode(observation).to(networks_.front()->layers().front()->weight.scalar_type());
}

at::Tensor ActionValues::forward(const at::Tensor& features, const at::Tensor& action) {
  const at::Tensor inputs = at::cat({features, action}, 1);
  std::vector<at::Tensor> values;
  for (const auto& network : networks_) values.push_back(network->forward(inputs).squeeze(1));
  return at::stack(values);
}

at::Tensor ActionValues::forward_dropped(const at::Tensor& features, const at::Tensor& action,
                                         std::span<const std::size_t> chosen) const {
  const at::Tensor inputs = at::cat({features, action}, 1);
  std::vector<at::Tensor> values;
  for (const std::size_t place : chosen)
    values.push_back(rl::forward_dropped(*networks_.at(place), inputs, dropout_).squeeze(1));
  return at::stack(values);
}

at::Tensor ActionValues::forward_dropped(const at::Tensor& features, const at::Tensor& action) const {
  std::vector<std::size_t> all(networks_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return forward_dropped(features, action, all);
}

at::Tensor ActionValues::forward_frozen(const at::Tensor& features, const at::Tensor& action) const {
  const at::Tensor inputs = at::cat({features.detach(), action}, 1);
  std::vector<at::Tensor> values;
  for (const auto& network : networks_) values.push_back(rl::forward_frozen(*network, inputs, dropout_).squeeze(1));
  return at::stack(values);
}

std::vector<const Mlp*> ActionValues::nets() const {
  std::vector<const Mlp*> nets;
  for (const auto& network : networks_) nets.push_back(network.get());
  return nets;
}

std::string ActionValues::least_script(const std::string& name, const std::string& action) const {
  std::string text = concat("    pair = torch.cat([features, ", action, "], 1)\n");
  for (std::size_t i = 0; i < networks_.size(); ++i) {
    text += "    q = pair\n" + script_of(*networks_[i], concat(name, "._", i), "q", networks_[i]->layers().size());
    text += i == 0 ? "    value = q\n" : "    value = torch.minimum(value, q)\n";
  }
  return text;
}

// The parameters of a group lie side by side in a flat buffer, in the order in which the module has them, which is that
// of the copy.
TargetNetwork::TargetNetwork(const model::FlatParameters& source, const std::string& prefix,
                             const std::shared_ptr<torch::nn::Module>& copy) {
  const std::string begin = prefix + ".";
  const auto parameters = copy->named_parameters();
  TANDEM_CHECK(source.buffers().size() == 1, "parameters of ", source.buffers().size(), " kinds");
  const model::FlatBuffer& buffer = source.buffers().front();
  const auto is_followed = [&begin](const model::ParameterSlot& slot) { return slot.name.starts_with(begin); };
  const auto first = std::ranges::find_if(buffer.slots, is_followed);
  const auto last = std::find_if_not(first, buffer.slots.end(), is_followed);
  TANDEM_CHECK(static_cast<std::size_t>(last - first) == parameters.size() &&
                   std::none_of(last, buffer.slots.end(), is_followed),
               "parameters of ", prefix, " that the target has not, or that lie apart");
  if (first == last) return;
  const std::int64_t from = first->offset, to = (last - 1)->offset + (last - 1)->count;
  source_ = buffer.values.narrow(0, from, to - from);
  values_ = source_.clone();
  for (auto slot = first; slot != last; ++slot) {
    const std::string own = slot->name.substr(begin.size());
    const at::Tensor* parameter = parameters.find(own);
    TANDEM_CHECK(parameter != nullptr && parameter->sizes() == slot->shape, "parameter ", slot->name,
                 " is another one in its target");
    const at::Tensor view = values_.narrow(0, slot->offset - from, slot->count).view(slot->shape);
    at::Tensor its = *parameter;
    its.set_requires_grad(false);
    its.set_data(view);
    named_.emplace_back(slot->name, view);
  }
}

// A copy is no blend: it has the source's bits.
void TargetNetwork::follow(double share) {
  if (!values_.defined()) return;
  if (share == 1) {
    values_.copy_(source_);
  } else {
    values_.lerp_(source_, share);
  }
}

model::NamedTensors TargetNetwork::state() const { return named_; }

void TargetNetwork::load(const model::NamedTensors& state) { model::copy_named(state, named_); }

}  // namespace tandem::rl
