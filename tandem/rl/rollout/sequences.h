// rl/rollout/sequences.h: how the steps of a fragment are cut into sequences for policies that remember.
//
// With steps T, length L and burn-in B, sequence k is steps [k L, k L + B + L) of one row of the fragment. Its first B
// steps only bring the state up to date; those after them are learned from, and in sequence 0, before which there is
// nothing, all of them. So every step is learned from once:
//
//     sequence 0   |B learned|L learned|
//     sequence 1             |B burn-in|L learned|          (drawn for B = L)
//
// What lies beyond the fragment's end is padding. All in this header, since the program's configuration, which is
// without LibTorch, asks as well. Threads: plain values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tandem/base/check.h"

namespace tandem::rl {

/// Steps are of one environment. A burn-in warms the state up, as in R2D2 (Kapturowski et al., 2019).
struct SequenceOptions {
  int length = 32;  // steps that are learned from, and that gradients flow back through
  int burn_in = 0;  // steps before them, which gradients do not reach

  bool operator==(const SequenceOptions&) const = default;
};

/// Sequence k covers steps k * length up to k * length + window(); steps past the end of the fragment are padding.
/// Neighbours overlap by the burn-in.
class SequenceCut {
 public:
  /// steps >= 0, length >= 1, burn_in >= 0.
  SequenceCut(int steps, const SequenceOptions& options) : steps_(steps), options_(options) {
    TANDEM_CHECK(steps >= 0 && options.length >= 1 && options.burn_in >= 0, steps, " steps in sequences of ",
                 options.burn_in, " + ", options.length);
  }

  /// Sequences of one row of the fragment; without steps there is none.
  [[nodiscard]] int count() const {
    return steps_ == 0 ? 0 : std::max(1, (steps_ - options_.burn_in + options_.length - 1) / options_.length);
  }
  /// Steps of a sequence, burn-in and padding included.
  [[nodiscard]] int window() const { return std::min(steps_, options_.burn_in + options_.length); }
  /// The step that sequence `k` begins with.
  [[nodiscard]] int begin(int k) const { return k * options_.length; }
  /// Whether the sequence's step `i` is learned from.
  [[nodiscard]] bool learns(int k, int i) const { return begin(k) + i < steps_ && (k == 0 || i >= options_.burn_in); }

 private:
  int steps_;
  SequenceOptions options_;
};

/// Lengths of the pieces of a sequence of `steps` steps that gradients stay within; one of them begins behind the
/// burn-in. A sequence before which there is nothing learns from its burn-in too, so gradients flow within the burn-in.
/// PPO cuts each sequence of a minibatch so, IMPALA and APPO a whole rollout and the step behind it: the same pieces by
/// kernels and by autograd, whose gradients would be others across them.
[[nodiscard]] inline std::vector<std::int64_t> sequence_pieces(std::int64_t steps, const SequenceOptions& options) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t begin = 0; begin < steps; begin += lengths.back()) {
    const std::int64_t end = begin < options.burn_in ? std::min<std::int64_t>(options.burn_in, steps) : steps;
    lengths.push_back(std::min<std::int64_t>(options.length, end - begin));
  }
  return lengths;
}

}  // namespace tandem::rl
