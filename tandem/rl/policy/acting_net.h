// rl/policy/acting_net.h: what a policy computes from an observation up to the numbers that say its action, as a list
// of operations, for those who run it without this library (export/).
//
// A policy lists its steps in ActorCritic::acting_net(); the writers of ONNX and of C++ go through the list, so a new
// kind of network is a new list, and a new operation a new ActingStep::Kind. What values an observation takes no part.
//
// A value is a row of numbers. Value 0 has the features of Encoder::encode(), and value i + 1 is the result of step i;
// the last one is the policy's first action parameter, logits or a mean. Steps come in an order in which their
// arguments are there.
//
// Threads: any, while nothing writes to the policy. Ownership: a net refers to the policy's modules and parameters, and
// must not outlive it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

class RecurrentCell;

/// One operation on the values of a row.
struct ActingStep {
  enum class Kind {
    kLinear,     // weight x + bias, of torch.nn.Linear
    kActivate,   // `activation` of each number; nothing else takes its argument
    kRemember,   // the output of `cell`, whose state is the row's; a net has at most one
    kTakeFirst,  // the first `count` numbers
    kSquash,     // tanh of each number, by the standard library; nothing else takes its argument
    kDuel,       // of `in`, [numbers], and `also`, [count, numbers]: in + also - the mean of also over `count`
    kExpect,     // of [count, numbers] logits, by `count`: the mean of `support` under their probabilities
    kAverage,    // of [count, numbers], by `count`: the mean of the numbers
  } kind;
  std::size_t in = 0, also = 0;
  at::Tensor weight = {}, bias = {}, support = {};
  Activation activation = Activation::kTanh;
  const RecurrentCell* cell = nullptr;
  std::int64_t count = 0;
};

/// The steps of one policy.
class ActingNet {
 public:
  /// Value 0 is what `encoder` makes of an observation.
  explicit ActingNet(const Encoder& encoder);

  /// Appends a step and returns the number of its value. `size`: the numbers of that.
  std::size_t add(ActingStep step, std::int64_t size);
  /// Appends the layers of `mlp`, which reads value `in`. Throws ConfigError for one with norms, which no network that
  /// acts has.
  std::size_t add(const Mlp& mlp, std::size_t in);

  /// The encoder makes value 0.
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  [[nodiscard]] const std::vector<ActingStep>& steps() const { return steps_; }
  /// The numbers of a value.
  [[nodiscard]] std::int64_t size(std::size_t value) const { return sizes_.at(value); }
  /// The number of the last value.
  [[nodiscard]] std::size_t last() const { return steps_.size(); }
  /// The cell of the one step that remembers, or null.
  [[nodiscard]] const RecurrentCell* cell() const;

 private:
  const Encoder* encoder_;
  std::vector<ActingStep> steps_;
  std::vector<std::int64_t> sizes_;  // by value
};

}  // namespace tandem::rl
