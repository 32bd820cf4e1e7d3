// rl/env/native/classic_group.h: the base of the native classic-control environments: everything but their dynamics.
//
// A derived class has four functions: start() draws a start state, observe() shows a state, advance() steps all
// environments at once, draw() draws one for a video. Time limits, autoreset, saved states and checks are here.
// native/cartpole.cc is an example.
//
// The state lies as a structure of arrays, one column a variable, so that one call steps the whole group in loops which
// the compiler turns into vector instructions. Dynamics, start states and random streams are those of gymnasium 1.x,
// whose arithmetic is float64 in nearly all places; where it is not, the environment's file says so.
//
// Threads: single-thread, as every EnvGroup. Limits: one float32 leaf, a time limit, no action mask.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/numpy_random.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {

/// A group of one of the classic environments.
class ClassicGroup : public EnvGroup, public StepsByRow {
 public:
  [[nodiscard]] const Spec& spec() const final { return spec_; }
  [[nodiscard]] int size() const final { return count_; }
  /// Environment e draws from NumpyGenerator(seeds[e]) until the next reset(), over all its episodes.
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) final;
  void step(const EnvActions& actions, const EnvArrays& out) final;
  [[nodiscard]] bool can_step_rows() const final { return true; }
  /// Steps all environments, and then puts those that rest back to where they were.
  void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) final;
  [[nodiscard]] bool can_save() const final { return true; }
  [[nodiscard]] std::vector<std::byte> save() const final;
  void load(std::span<const std::byte> state, const EnvArrays& out) final;
  /// Every classic environment draws itself, by draw().
  [[nodiscard]] bool can_render() const final { return true; }
  void render(int env, Canvas& canvas) const final;
  void watch_ends(std::function<void(int env)> at_end) final { at_end_ = std::move(at_end); }

  /// The state variables of one environment, as gymnasium's `env.unwrapped.state`, for comparisons with gymnasium.
  [[nodiscard]] std::vector<double> state(int env) const;
  /// Puts one environment into `state`, `elapsed_steps` steps into its episode. The random stream stays as it is.
  void set_state(int env, std::span<const double> state, int elapsed_steps);

 protected:
  /// `spec` has one float32 leaf and a Discrete or one-element Box action. Throws ConfigError unless count >= 1.
  /// `state_size` is the number of state variables, each of which gets a column of zeros.
  ClassicGroup(Spec spec, int count, int state_size);

  /// Draws the start state of one environment into its columns. Draws in the order in which gymnasium's reset() draws.
  virtual void start(int env, NumpyGenerator& random) = 0;
  /// Writes the observation of one environment from its columns to `row`; elapsed(env) == 0 right after start().
  virtual void observe(int env, float* row) const = 0;
  /// One step of every environment: changes the columns and writes all rows of observations, rewards and `terminated`,
  /// also of environments whose episode ends. Actions have been checked; a Box action may exceed its bounds.
  /// `observation` is [count, row], dense; `actions` has the array that the spec's action space needs. advance() must
  /// not end episodes by time, which the base does.
  virtual void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) = 0;

  /// Draws one environment from its columns, which are those of the moment: after an episode's end, of its last one.
  virtual void draw(int env, Canvas& canvas) const = 0;

  /// One state variable of all environments.
  [[nodiscard]] double* column(int variable) { return columns_.data() + std::ptrdiff_t{variable} * count_; }
  [[nodiscard]] const double* column(int variable) const { return columns_.data() + std::ptrdiff_t{variable} * count_; }
  /// Steps of the current episode that are done; during advance(), those before it.
  [[nodiscard]] int elapsed(int env) const { return elapsed_[static_cast<std::size_t>(env)]; }

 private:
  // What environments that rest have in the columns and in the caller's arrays.
  struct Kept {
    std::vector<double> columns, reward;
    std::vector<float> rows;
    std::vector<std::uint8_t> terminated;
  };

  // The parts of step() around advance(): what the caller gave, what advance() showed, time limits, new episodes.
  // count_step() also applies the time limit, and restart_ended() moves last observations to `final_observation`.
  void check_arrays(const EnvArrays& out) const;
  void check_observations(const float* observation) const;
  // Returns whether any episode ended, so that most steps skip restart_ended().
  bool count_step(const EnvArrays& out);
  template <typename HasEnded>
  void restart_ended(const EnvArrays& out, const HasEnded& has_ended);
  // Everything that advance() changes of environment e, into `kept` and back.
  template <typename Copy>
  void copy_row(std::size_t e, const EnvArrays& out, Kept& kept, const Copy& copy);

  const Spec spec_;
  const int count_;
  const int state_size_;
  const std::size_t row_size_;
  // [state_size_, count_]: the state variables of all environments.
  std::vector<double> columns_;
  // By environment: steps of its episode, and its random stream, which runs on over episodes.
  std::vector<std::int32_t> elapsed_;
  std::vector<NumpyGenerator> random_;
  Kept kept_;                            // empty until an environment rests
  std::function<void(int env)> at_end_;  // of watch_ends()
};

/// A leaf named "obs" of `high.size()` floats within [low, high]. Bounds are rounded to float32, as gymnasium's.
[[nodiscard]] Leaf bounded_observation(const std::vector<double>& low, const std::vector<double>& high);

// The groups that Tandem brings along, each in a file of its name. They throw ConfigError unless count >= 1. Each is
// registered under gymnasium's name of it.
[[nodiscard]] std::unique_ptr<ClassicGroup> make_acrobot(int count);
[[nodiscard]] std::unique_ptr<ClassicGroup> make_cartpole(int count);
[[nodiscard]] std::unique_ptr<ClassicGroup> make_mountain_car(int count);
[[nodiscard]] std::unique_ptr<ClassicGroup> make_mountain_car_continuous(int count);
[[nodiscard]] std::unique_ptr<ClassicGroup> make_pendulum(int count);

}  // namespace tandem::rl
