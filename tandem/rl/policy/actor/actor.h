// rl/policy/actor/actor.h: chooses actions for the environments of one group.
//
//   actor.refresh();                                     // once after each update of the parameters
//   for each step of the rollout:
//     actor.act(observation, mask, decisions);
//     group.step(actions of decisions, arrays);
//     actor.episodes_ended(done);
//
// An actor reads the parameters of its replica's policy and owns everything else that decides the actions: a random
// stream, for temporally correlated exploration the noise that is held over several steps, and for recurrent policies
// the state of each row. All of it belongs to the env group, so actions do not depend on which replica the group runs
// on. make_actor() chooses the implementation.
//
// Threads: single-thread, the replica's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/policy/policy.h"
#include "tandem/rl/policy/policy_options.h"

namespace tandem::rl {

/// Where a step's decisions are written; the caller owns the memory. Exactly one of the two actions is non-null.
struct Decisions {
  /// [rows, action elements].
  std::int64_t* discrete = nullptr;
  /// [rows, action elements]: as sampled, before to_bounds().
  float* box = nullptr;
  /// [rows]: natural logarithms of the probability or density of the actions.
  float* log_prob = nullptr;
  /// [rows]: the policy's values of the observations.
  float* value = nullptr;
};

/// Decides for a fixed number of rows, which are the environments of one group.
class Actor {
 public:
  virtual ~Actor() = default;

  /// Takes the policy's parameters as they are now. To be called before the first act() after each update.
  virtual void refresh() = 0;
  /// Samples an action for each row of `observation` (per leaf [rows, ...], as the policy sees it) and writes its
  /// log-probability and the value of the observation. `mask`: [rows, mask elements] of 0 and 1, or undefined.
  virtual void act(const std::vector<at::Tensor>& observation, const at::Tensor& mask, const Decisions& out) = 0;
  /// Tells in which rows an episode ended with the last step: `done` [rows] is not zero there. Their states become
  /// empty, and noise that is held over steps is drawn anew.
  virtual void episodes_ended(std::span<const std::uint8_t> done) = 0;
  /// The state of each row, which the next act() starts from: [rows, state size] float32 on the CPU, changed in place
  /// by act(), episodes_ended() and load(). Undefined for policies that are not recurrent.
  [[nodiscard]] virtual at::Tensor state() const { return {}; }
  /// Writes values alone, for any number of rows. `state`: the state of each of these rows; undefined where state() is.
  /// It is not changed, nor is this actor's own.
  virtual void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor& state, float* value) = 0;

  /// Random streams, held noise and states, for checkpoints. load() throws CheckpointError on bytes that it cannot
  /// read.
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  virtual void load(std::span<const std::byte> state) = 0;
};

/// Makes an MlpActor for an MlpPolicy that MlpActor can run, likewise a RecurrentActor, else a ModuleActor. The first
/// two run on the CPU whatever the policy's device; they are not taken when the policy lies on another device and a
/// step of `rows` rows is so much work that the way there is worth it. The actor is for `rows` rows of env group
/// `group`, and its random stream follows from the run's seed and the group's number. `policy` must outlive the actor.
[[nodiscard]] std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                                std::uint64_t run_seed, int group);

}  // namespace tandem::rl
