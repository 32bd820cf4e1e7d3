// rl/env/wrappers/wrapping_group.h: what all wrapped groups have in common: they hold the inner group, pass on what
// they do not change, and keep their own state in front of the inner group's.
//
// Threads: single-thread, as every EnvGroup. Ownership: owns the inner group. Errors: those of the inner group pass
// unchanged.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {

/// A derived class says what becomes of a step, and beside that only what it changes.
class WrappingGroup : public EnvGroup, public StepsByRow, public GoalRewards {
 public:
  [[nodiscard]] const Spec& spec() const final { return spec_; }
  [[nodiscard]] int size() const final { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) final;
  void step(const EnvActions& actions, const EnvArrays& out) final { step_some({}, actions, out); }
  [[nodiscard]] bool can_step_rows() const final { return by_row_ != nullptr || stepped_by_row(*inner_) != nullptr; }
  void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) final;
  /// Where the inner group does, its goals are shown as they are, and rewards_goals().
  [[nodiscard]] bool can_reward_goals() const final;
  void reward_goals(const GoalRows& rows) final;
  void set_progress(double share) final { inner_->set_progress(share); }
  [[nodiscard]] bool can_save() const final { return inner_->can_save(); }
  /// Empty where the inner group's is (isolated_envs.h), so that nobody takes it for a state to go on from.
  [[nodiscard]] std::vector<std::byte> save() const final;
  void load(std::span<const std::byte> state, const EnvArrays& out) final;
  [[nodiscard]] bool can_render() const final { return inner_->can_render(); }
  void render(int env, Canvas& canvas) const final { inner_->render(env, canvas); }
  void watch_ends(std::function<void(int env)> at_end) override { inner_->watch_ends(std::move(at_end)); }

 protected:
  /// `name`: of the wrapper, which saved states must have been written by. `spec_of`: as EnvWrapper::spec_of.
  WrappingGroup(std::unique_ptr<EnvGroup> inner, std::string name, const std::function<Spec(const Spec&)>& spec_of);

  [[nodiscard]] EnvGroup& inner() const { return *inner_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// A step of the inner group. No `rows`: of all its environments.
  void step_inner(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out);

  /// A step, of the environments that `rows` says; see makes_a_step().
  virtual void step_some(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) = 0;
  /// Where the inner group writes when it is reset or loaded. The result is valid until the next call.
  virtual const EnvArrays& first_arrays(const EnvArrays& out) { return out; }
  /// The inner group has begun an episode in each environment, and has written to first_arrays().
  virtual void begun(std::span<const std::uint64_t> /*seeds*/, const EnvArrays& /*out*/) {}
  /// The same after a load(); get_state() was called before.
  virtual void loaded(const EnvArrays& /*out*/) {}
  /// Whether a step's reward still follows from its goals, and what becomes of the inner group's.
  [[nodiscard]] virtual bool rewards_goals() const { return true; }
  [[nodiscard]] virtual double changed_reward(double inner) const { return inner; }
  /// What the wrapper keeps of its own over steps. get_state() throws CheckpointError by `reader`.
  virtual void put_state(StateWriter& /*writer*/) const {}
  virtual void get_state(StateReader& /*reader*/) {}

 private:
  const std::unique_ptr<EnvGroup> inner_;
  // inner_, once it has stepped by rows. It is asked late: groups in processes of their own start these to answer.
  StepsByRow* by_row_ = nullptr;
  const std::string name_;
  const Spec spec_;
  const std::size_t rows_;
};

/// Whether the episode of environment `env` has ended with the step that was written to `out`.
[[nodiscard]] inline bool has_ended(const EnvArrays& out, std::size_t env) {
  return (out.terminated[env] | out.truncated[env]) != 0;
}

}  // namespace tandem::rl
