#include "tandem/rl/policy/recurrent.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"

namespace tandem::rl {

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
