// rl/policy/policy.h: what an algorithm needs of a policy, and the class to derive one's own module from.
//
//   struct Pixels : tandem::rl::ActorCritic {
//     explicit Pixels(const Spec& spec) : ActorCritic(spec) {
//       register_module("conv", conv);
//       register_module("pi", pi);
//       register_module("v", v);
//     }
//     PolicyOutput forward(const Observation& observation) override {
//       const at::Tensor x = torch::relu(conv(observation[0].to(torch::kFloat) / 255)).flatten(1);
//       return {{pi(x)}, v(x).squeeze(1)};
//     }
//     torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 16, 8).stride(4)};
//     torch::nn::Linear pi{16 * 20 * 20, 6}, v{16 * 20 * 20, 1};
//   };
//   PolicyFactory factory = [](const Spec& spec, at::Generator) { return std::make_shared<Pixels>(spec); };
//
// A policy that remembers derives from RecurrentActorCritic instead. mlp_policy.h and recurrent_policy.h
// are Tandem's own.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/model/distribution/distribution.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

class ActingNet;

/// The result of forward() for B rows.
struct PolicyOutput {
  /// The tensors that ActionFamily lists for the policy's family.
  std::vector<at::Tensor> action_parameters;
  /// [B]: the estimated return of each row.
  at::Tensor value;
};

/// Throws ConfigError unless the value of `output` has one number for each of `rows` rows: forward() of a user's own
/// policy may return anything.
void check_value(const PolicyOutput& output, std::int64_t rows);

// Rows of a policy's output. Parameters that all rows share (a log_std of [size]) stay as they are. Results are
// differentiable.

/// Applies `select` to every tensor of `output` that has a row for each of the output's `rows` rows.
[[nodiscard]] PolicyOutput map_rows(const PolicyOutput& output, std::int64_t rows,
                                    const std::function<at::Tensor(const at::Tensor&)>& select);

/// Joins the rows of several outputs of one policy, one after the other. `rows`: the number of rows of each output.
[[nodiscard]] PolicyOutput cat_rows(const std::vector<PolicyOutput>& outputs, const std::vector<std::int64_t>& rows);

/// forward() in TorchScript: the source of
///   def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:
/// which returns action_parameters and value. Parameters, buffers and submodules have the names that they are
/// registered under (self.pi.weight), with "_" before one that begins with a digit (self.net._0.weight); operations are
/// those of `torch.` (torch.linear, torch.conv2d, torch.relu). `constants` become buffers under their names
/// (self.NAME).
struct PolicyScript {
  std::string source;
  std::vector<std::pair<std::string, at::Tensor>> constants = {};
};

/// A module that gives a distribution over actions and a value for each row of an observation.
///
/// One forward() serves acting (called under at::NoGradGuard, in eval mode, by rollout workers) and learning (with
/// gradients, in train mode). Threads: one at a time; every replica has its own copy, which its rollout
/// workers share.
/// Rows must be independent of each other, and forward() deterministic: the learner divides the probability that it
/// computes by the one that acting recorded. Random operations (dropout) take model::current_generator() and act only
/// in train mode.
class ActorCritic : public torch::nn::Module {
 public:
  /// For the usual family of the spec's action space, or the given one. Throws ConfigError when it does not fit.
  explicit ActorCritic(const Spec& spec);
  ActorCritic(const Spec& spec, ActionFamily family);

  /// `observation`: per leaf [B, ...]; float leaves are normalised already where the run normalises observations.
  virtual PolicyOutput forward(const Observation& observation) = 0;

  /// The distribution of `output`. `mask`: [B, mask elements], non-zero where allowed; undefined without masks.
  /// Override it for a distribution of your own (see script() and Actor for what then needs one too).
  [[nodiscard]] virtual std::unique_ptr<model::Distribution> distribution(const PolicyOutput& output,
                                                                          const at::Tensor& mask = {}) const;

  /// forward() in TorchScript, for policy_export.h. The default throws ConfigError saying to override this.
  [[nodiscard]] virtual PolicyScript script() const;
  /// The way from an observation to the first action parameter as a list of operations (acting_net.h), for exports to
  /// ONNX and C++. The default throws ConfigError saying what can be exported instead.
  [[nodiscard]] virtual ActingNet acting_net() const;

  /// The spec that it was made for, as_policies_see() it, and the family.
  [[nodiscard]] const Spec& spec() const { return spec_; }
  [[nodiscard]] ActionFamily family() const { return family_; }

 private:
  Spec spec_;
  ActionFamily family_;
};

/// T steps of S sequences, time-major: row t * S + s is step t of sequence s.
struct SequenceInput {
  /// By leaf [T * S, ...].
  Observation observation;
  /// [S, state_size()]: the states before the first step.
  at::Tensor state;
  /// [T, S]: not zero where an episode begins with the step, so that the state before it is forgotten; undefined:
  /// nowhere.
  at::Tensor start;
};
struct SequenceOutput {
  /// The output for all T * S rows.
  PolicyOutput output;
  /// [S, state_size()]: the states after the last step.
  at::Tensor state;
};

/// A policy whose output depends on what its row saw before in the episode.
///
/// A row remembers its state: a list of numbers, all zero where an episode begins. Actors carry the state from step to
/// step; the learner starts sequences from the states that acting had there. How rollouts become sequences:
/// rl/rollout/sequences.h.
class RecurrentActorCritic : public ActorCritic {
 public:
  using ActorCritic::ActorCritic;

  /// Numbers of one row's state.
  [[nodiscard]] virtual std::int64_t state_size() const = 0;
  /// Runs whole sequences. The numbers are those of running the steps one by one, to rounding; gradients flow back
  /// through all steps.
  virtual SequenceOutput forward_sequences(const SequenceInput& input) = 0;

  /// The output of rows that are in the first step of their episode.
  PolicyOutput forward(const Observation& observation) final;
};

/// Runs forward_sequences() over pieces of `lengths` steps in turn, which add up to T. Gradients end where pieces meet
/// (truncated backpropagation through time), which bounds the memory of the backward pass.
[[nodiscard]] PolicyOutput forward_in_pieces(RecurrentActorCritic& policy, const SequenceInput& input,
                                             const std::vector<std::int64_t>& lengths);

/// Makes the policy of a run. Everything random in the initial parameters comes from `generator`, so that all replicas
/// start alike.
using PolicyFactory = std::function<std::shared_ptr<ActorCritic>(const Spec& spec, at::Generator generator)>;

}  // namespace tandem::rl
