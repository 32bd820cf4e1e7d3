// rl/policy/actor.h: chooses actions for the environments of one group.
//
// An actor reads the parameters of its replica's policy and owns what else decides the actions: a random stream, for
// temporally correlated exploration the noise that is held over several steps, and for recurrent policies what each row
// remembers. All of it belongs to the env group, so actions do not depend on which replica the group runs on.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::rl {

/// Where a step's decisions are written, a row an (environment, agent). Exactly one of the two actions is non-null.
struct Decisions {
  std::int64_t* discrete = nullptr;  // [rows, action elements]
  float* box = nullptr;              // [rows, action elements]: as sampled, before any clipping
  float* log_prob = nullptr;         // [rows]
  float* value = nullptr;            // [rows]
};

class Actor {
 public:
  virtual ~Actor() = default;

  /// The policy's parameters were changed. To be called before the first act() after each update.
  virtual void refresh() = 0;
  /// Samples an action for each row of `observation` (per leaf [rows, ...], as the policy sees it) and writes its
  /// log-probability and the value of the observation. `mask`: [rows, mask elements] of 0 and 1, or undefined.
  virtual void act(const std::vector<at::Tensor>& observation, const at::Tensor& mask, const Decisions& out) = 0;
  /// Episodes ended with the last step where `done` is not zero, [rows]: what they remember is forgotten, and noise
  /// that is held over steps is drawn anew there.
  virtual void episodes_ended(std::span<const std::uint8_t> done) = 0;
  /// What each row remembers of its episode, as the next act() starts from it: [rows, state size] float32 on the CPU,
  /// changed in place by act(), episodes_ended() and load(). Undefined for policies that remember nothing.
  [[nodiscard]] virtual at::Tensor state() const { return {}; }
  /// Values alone, of any number of rows. `state`: what each of them remembers; undefined as state() is. Nothing is
  /// remembered of it.
  virtual void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor& state, float* value) = 0;

  /// Random streams, held noise and states, for checkpoints. load() throws CheckpointError on bytes that it cannot
  /// read.
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  virtual void load(std::span<const std::byte> state) = 0;
};

}  // namespace tandem::rl
