#include "tandem/rl/policy/policy.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {
namespace {

// Whether all rows share an action parameter. Only a log_std can be shared, and it is the last of several parameters.
// With three parameters (state-dependent noise) it is [features, size], always shared; with two it is [size] and
// shared, or has a row for each row of the output.
bool is_shared(const PolicyOutput& output, std::size_t parameter, std::int64_t rows) {
  const std::size_t parameters = output.action_parameters.size();
  if (parameters == 1 || parameter + 1 != parameters) return false;
  const at::Tensor& tensor = output.action_parameters[parameter];
  return parameters == 3 || tensor.dim() < 2 || tensor.size(0) != rows;
}

}  // namespace

ActorCritic::ActorCritic(const Spec& spec) : ActorCritic(spec, usual_family(spec.action)) {}

ActorCritic::ActorCritic(const Spec& spec, ActionFamily family) : spec_(as_policies_see(spec)), family_(family) {
  check_spec(spec);
  check_family(family, spec.action);
}

std::unique_ptr<model::Distribution> ActorCritic::distribution(const PolicyOutput& output,
                                                               const at::Tensor& mask) const {
  return make_distribution(family_, spec_.action, output.action_parameters, mask);
}

PolicyScript ActorCritic::script() const {
  throw ConfigError(
      "this policy cannot be exported to TorchScript: its class does not override ActorCritic::script(), which returns "
      "the source of `def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]`; export the weights "
      "alone as .safetensors instead, or override it");
}

ActingNet ActorCritic::acting_net() const {
  throw ConfigError(
      "this policy cannot be exported to ONNX or C++: its class does not override ActorCritic::acting_net(), which "
      "lists what it computes; export it as .pt, for which script() is enough, or its weights as .safetensors");
}

void check_value(const PolicyOutput& output, std::int64_t rows) {
  const at::Tensor& value = output.value;
  if (value.defined() && value.dim() == 1 && value.size(0) == rows) return;
  const bool has_column = value.defined() && value.dim() == 2 && value.size(0) == rows && value.size(1) == 1;
  throw ConfigError(concat("forward() of the policy returned ",
                           value.defined() ? concat("a value of [", joined(value.sizes()), "]") : "no value", " for ",
                           rows, " rows, and it must be [", rows, "], one number a row",
                           has_column ? "; value.squeeze(1) is that" : ""));
}

PolicyOutput map_rows(const PolicyOutput& output, std::int64_t rows,
                      const std::function<at::Tensor(const at::Tensor&)>& select) {
  PolicyOutput selected{.action_parameters = {}, .value = select(output.value)};
  for (std::size_t i = 0; i < output.action_parameters.size(); ++i) {
    const at::Tensor& parameter = output.action_parameters[i];
    selected.action_parameters.push_back(is_shared(output, i, rows) ? parameter : select(parameter));
  }
  return selected;
}

PolicyOutput cat_rows(const std::vector<PolicyOutput>& outputs, const std::vector<std::int64_t>& rows) {
  if (outputs.size() == 1) return outputs.front();
  PolicyOutput all{.action_parameters = {}, .value = {}};
  std::vector<at::Tensor> values;
  for (const PolicyOutput& each : outputs) values.push_back(each.value);
  all.value = at::cat(values);
  for (std::size_t i = 0; i < outputs.front().action_parameters.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const PolicyOutput& each : outputs) parts.push_back(each.action_parameters[i]);
    all.action_parameters.push_back(is_shared(outputs.front(), i, rows.front()) ? parts.front() : at::cat(parts));
  }
  return all;
}

// Each row is a sequence of one step whose state is empty.
PolicyOutput RecurrentActorCritic::forward(const Observation& observation) {
  const at::TensorOptions like = parameters().front().options().requires_grad(false);
  return forward_sequences({.observation = observation,
                            .state = at::zeros({observation[0].size(0), state_size()}, like),
                            .start = {}})
      .output;
}

// Each piece starts from the state after the one before, detached. Outputs are joined row after row, which is the
// time-major order of the whole.
PolicyOutput forward_in_pieces(RecurrentActorCritic& policy, const SequenceInput& input,
                               const std::vector<std::int64_t>& lengths) {
  const std::int64_t sequences = input.state.size(0);
  std::vector<PolicyOutput> outputs;
  std::vector<std::int64_t> rows;
  at::Tensor state = input.state;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    SequenceInput piece{.observation = {}, .state = state, .start = {}};
    for (const at::Tensor& leaf : input.observation)
      piece.observation.push_back(leaf.narrow(0, begin * sequences, length * sequences));
    if (input.start.defined()) piece.start = input.start.narrow(0, begin, length);
    SequenceOutput its = policy.forward_sequences(piece);
    outputs.push_back(std::move(its.output));
    rows.push_back(length * sequences);
    state = its.state.detach();
    begin += length;
  }
  TANDEM_CHECK(begin * sequences == input.observation[0].size(0), begin, " steps of ", sequences, " sequences for ",
               input.observation[0].size(0), " rows");
  return cat_rows(outputs, rows);
}

}  // namespace tandem::rl
