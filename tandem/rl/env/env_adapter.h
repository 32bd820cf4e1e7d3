// rl/env/env_adapter.h: turns a user's one-environment struct (env_concepts.h) into an EnvGroup.
//
//   std::unique_ptr<EnvGroup> group = std::make_unique<EnvGroupOf<Corridor>>(64);
//
// The adapter adds all that a group owes the runtime and that a user's struct need not know of: time limits, autoreset
// in the same step, final observations, checks of sizes and values, means of metrics, saved states, and errors that
// name the environment and the step.
//
// Seeds: environment e draws from NumpyGenerator(seeds[e]), over all its episodes until the next reset(). A struct that
// resets from a seed gets seeds[e] itself for its first episode and draws of that generator for the later ones.
// Threads: single-thread, as every EnvGroup; environments of different groups run in parallel, so they share no state.
#pragma once
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/env_options.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/observation_writer.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/env/steps_by_row.h"

namespace tandem::rl {

/// A group of environments of the user's struct `Env`.
template <typename Env>
class EnvGroupOf final : public EnvGroup, public StepsByRow, public GoalRewards {
  static_assert(TellsItsSpec<Env>, "an environment needs a member `tandem::rl::Spec spec() const` (static is fine)");
  static_assert(DrawsItself<Env> || !HasRender<Env>,
                "render() of an environment is `void render(tandem::rl::Canvas& canvas) const`");
  static_assert(
      ResetsFromGenerator<Env> || ResetsFromSeed<Env>,
      "an environment needs reset(tandem::rl::NumpyGenerator&) or reset(std::uint64_t), returning an observation");
  static_assert(
      TakesOneChoice<Env> || TakesChoices<Env> || TakesNumbers<Env>,
      "an environment needs step() that takes std::int64_t, std::span<const std::int64_t> or std::span<const float> "
      "and returns {observation, reward, terminated, truncated}, e.g. a tandem::rl::StepResult");

 public:
  /// Makes one environment. A function of the user's own serves structs whose constructor needs arguments.
  using Make = std::function<std::unique_ptr<Env>()>;

  /// A group of `count` environments, each made by `make`. Throws ConfigError when count < 1, the spec has faults or
  /// does not agree with the struct's own types; EnvError when making one fails. A spec() that is not static is asked
  /// of the first environment.
  /// `options`: of a struct that has some (env_options.h).
  explicit EnvGroupOf(
      int count, const Make& make = [] { return std::make_unique<Env>(); }, const EnvOptionTexts& options = {})
      : giver_(options),
        slots_(make_slots(count, make, giver_)),
        spec_(with_metrics<Env>(Spec(slots_.front().env->spec()))) {
    check_spec(spec_);
    check_types();
  }

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(slots_.size()); }
  /// Writes the first observations and masks to `out`; rewards and ends are not written. Throws EnvError when a
  /// struct's reset() fails, and InvariantError unless there is one seed for each environment.
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override {
    check_arrays(out);
    TANDEM_CHECK(seeds.size() == slots_.size(), spec_.id, ": ", seeds.size(), " seeds for ", slots_.size());
    for (std::size_t e = 0; e < slots_.size(); ++e) {
      slots_[e].random = NumpyGenerator(seeds[e]);
      start(e, &seeds[e], out);
    }
  }
  /// Row e of every array of `out` belongs to environment e. After the end of an episode, `observation` shows the first
  /// observation of the next one, and `final_observation` the last one of the episode that ended. All actions are
  /// checked before any environment moves. Throws EnvError when an environment fails; the environments before it have
  /// then made their step, and the others have not.
  void step(const EnvActions& actions, const EnvArrays& out) override {
    check_step(actions, out);
    for (std::size_t e = 0; e < slots_.size(); ++e) step_one(e, actions, out, RowStep::kStep);
  }
  /// Every group of structs can.
  [[nodiscard]] bool can_step_rows() const override { return true; }
  void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) override {
    check_step(actions, out);
    TANDEM_CHECK(rows.size() == slots_.size(), spec_.id, ": ", rows.size(), " rows for ", slots_.size());
    for (std::size_t e = 0; e < slots_.size(); ++e) {
      if (rows[e] != RowStep::kRest) step_one(e, actions, out, rows[e]);
    }
  }
  void set_progress(double share) override { giver_.set_progress(share); }
  [[nodiscard]] bool can_save() const override { return SavesItsState<Env>; }
  /// The bytes: format, id and number of environments, then for each environment its generator, its elapsed steps, its
  /// options and the sums of its metrics where it has some, and the bytes of its own save(), with their length. Throws
  /// EnvError unless can_save(), and when the struct's own save() fails.
  [[nodiscard]] std::vector<std::byte> save() const override {
    if constexpr (!SavesItsState<Env>) {
      throw EnvError(concat(spec_.id, ": its states cannot be saved: it has no save() and load()"));
    } else {
      StateWriter writer;
      writer.put_group(kStateFormat, spec_.id, slots_.size());
      for (std::size_t e = 0; e < slots_.size(); ++e) {
        // The generator belongs to the adapter, so a struct that keeps a reference need not save it.
        slots_[e].put(writer);
        giver_.put(slots_[e].options, writer);
        keeper_.put(slots_[e].sums, writer);
        guarded(e, EnvCall::kSave, [&] { writer.put_range(std::as_const(*slots_[e].env).save()); });
      }
      return writer.take();
    }
  }
  /// Throws CheckpointError for bytes that do not fit: of another environment, of another number of environments, or of
  /// an episode beyond its time limit. Environments before the fault are then loaded already, so the group needs a
  /// reset() before its next step.
  void load(std::span<const std::byte> state, const EnvArrays& out) override {
    if constexpr (!SavesItsState<Env>) {
      throw EnvError(concat(spec_.id, ": its states cannot be loaded: it has no save() and load()"));
    } else {
      check_arrays(out);
      StateReader reader(state, concat("environment group '", spec_.id, "'"));
      reader.expect_group(kStateFormat, spec_.id, slots_.size());
      for (std::size_t e = 0; e < slots_.size(); ++e) {
        // A struct's load() may rely on a reset() before it, which also hands it the generator. The numbers that the
        // reset draws do not matter: the generator's saved state replaces them.
        start(e, nullptr, out);
        slots_[e].get(reader, e, spec_.max_episode_steps);
        guarded<CheckpointError>(e, EnvCall::kLoad, [&] { giver_.get(reader, *slots_[e].env, slots_[e].options); });
        keeper_.get(reader, slots_[e].sums);
        const std::span<const std::byte> bytes = reader.get_bytes();
        guarded<CheckpointError>(e, EnvCall::kLoad, [&] {
          write_observation(spec_, slots_[e].env->load(bytes), out.observation, e);
          write_mask(e, out);
        });
      }
      reader.expect_end();
    }
  }

  /// Known when compiling: the struct has render(). Its errors become an EnvError that names the environment.
  [[nodiscard]] bool can_render() const override { return DrawsItself<Env>; }
  void render(int env, Canvas& canvas) const override {
    if constexpr (DrawsItself<Env>) {
      const auto e = static_cast<std::size_t>(env);
      TANDEM_CHECK(env >= 0 && e < slots_.size(), env);
      guarded(e, EnvCall::kRender, [&] { std::as_const(*slots_[e].env).render(canvas); });
    } else {
      EnvGroup::render(env, canvas);
    }
  }
  /// Costs a look at an empty function at each episode's end while nobody watches, and nothing in a step.
  void watch_ends(std::function<void(int env)> at_end) override { at_end_ = std::move(at_end); }

  /// Known when compiling: the struct has compute_reward(). The first environment answers for all.
  [[nodiscard]] bool can_reward_goals() const override { return HasGoalReward<Env>; }
  void reward_goals(const GoalRows& rows) override {
    if constexpr (HasGoalReward<Env>)
      guarded(0, EnvCall::kReward, [&] { reward_rows_of(std::as_const(*slots_.front().env), spec_, rows); });
  }

  /// The e-th environment, for programs that look inside their own. The reference is valid as long as the group. An
  /// environment changes in every step, so it is looked at between steps.
  [[nodiscard]] const Env& env(int e) const { return *slots_[static_cast<std::size_t>(e)].env; }

 private:
  // Slots never move after construction, as EpisodeState asks.
  struct Slot : EpisodeState {
    std::unique_ptr<Env> env;
    [[no_unique_address]] typename OptionGiver<Env>::Drawn options;
    [[no_unique_address]] typename MetricKeeper<Env>::Sums sums;
  };
  // Version of the bytes of save(); a change of their layout needs the next number. The first value of every saved
  // state; load() refuses another one.
  static constexpr std::uint32_t kStateFormat = OptionGiver<Env>::kStateFormat + MetricKeeper<Env>::kStateFormat;

  // Errors of Tandem's own types pass unchanged, so that a ConfigError of the user's constructor stays one; others
  // become an EnvError with the environment's number.
  static std::vector<Slot> make_slots(int count, const Make& make, const OptionGiver<Env>& giver) {
    if (count < 1) throw ConfigError(concat("a group of ", count, " environments; it needs at least 1"));
    std::vector<Slot> slots(static_cast<std::size_t>(count));
    for (std::size_t e = 0; e < slots.size(); ++e) {
      try {
        slots[e].env = make();
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        throw EnvError(concat("making environment ", e, " of ", count, " failed: ", error.what()));
      }
      if (slots[e].env == nullptr) throw EnvError(concat("making environment ", e, " of ", count, " gave none"));
      guard_call<EnvError>([&] { return concat("environment ", e, " of ", count, " in configure(): "); },
                           [&] { giver.begin(*slots[e].env); });
    }
    return slots;
  }

  // Runs `action`, a call into environment e; its errors become a Failure that says where it was. The place is
  // described only when the call throws, from the steps that were done before the call.
  template <typename Failure = EnvError, typename Action>
  void guarded(std::size_t e, EnvCall call, Action&& action) const {
    const auto place = [&] { return describe_call(spec_, call, e, slots_.size(), slots_[e].elapsed); };
    guard_call<Failure>(place, std::forward<Action>(action));
  }

  // Starts an episode of environment e and writes its first observation and mask. `first_seed` points to the caller's
  // seed in the first episode after a reset(), and is null in later ones, whose seeds slot.random draws.
  void start(std::size_t e, const std::uint64_t* first_seed, const EnvArrays& out) {
    Slot& slot = slots_[e];
    slot.elapsed = 0;
    keeper_.begin_episode(slot.sums);
    guarded(e, EnvCall::kReset, [&] {
      giver_.begin_episode(*slot.env, slot.random, slot.options);
      write_observation(spec_, call_reset(*slot.env, slot.random, first_seed), out.observation, e);
      write_mask(e, out);
    });
  }

  void check_step(const EnvActions& actions, const EnvArrays& out) const {
    check_arrays(out);
    TANDEM_CHECK(out.reward != nullptr && out.terminated != nullptr && out.truncated != nullptr, spec_.id);
    check_actions(spec_, slots_.size(), actions);
  }

  // One step of environment e: its result is checked and written, the time limit applied, and where the episode ended
  // the next one started at once (autoreset).
  void step_one(std::size_t e, const EnvActions& actions, const EnvArrays& out, RowStep kind) {
    Slot& slot = slots_[e];
    bool ended = false;
    guarded(e, EnvCall::kStep, [&] {
      const auto result = call_step(*slot.env, spec_.action, actions.discrete, actions.box, e);
      // `elapsed` does not count this step yet.
      const bool limit =
          kind == RowStep::kLastStep || (spec_.max_episode_steps > 0 && slot.elapsed + 1 >= spec_.max_episode_steps);
      out.reward[e] = result.reward;
      out.terminated[e] = result.terminated;
      // Both flags may be set: the task ended in the very step in which the limit was reached.
      out.truncated[e] = result.truncated || limit;
      if (!std::isfinite(out.reward[e])) throw EnvError(concat("its reward is ", out.reward[e]));
      ended = out.terminated[e] != 0 || out.truncated[e] != 0;
      // The observation is written once, to where it belongs. Where nobody wants final observations, a last observation
      // is still checked by being written to `observation`, which start() overwrites.
      const bool is_final = ended && !out.final_observation.empty();
      write_observation(spec_, result.observation, is_final ? out.final_observation : out.observation, e);
      if (!ended) write_mask(e, out);
      keeper_.add_step(*slot.env, slot.sums);
      if (ended) keeper_.tell(*slot.env, slot.sums, slot.elapsed + 1, metrics_of(e, out));
    });
    ++slot.elapsed;
    if (!ended) return;
    if (at_end_) at_end_(static_cast<int>(e));
    start(e, nullptr, out);
  }

  // Asks environment e which options it allows now, and checks that it leaves one for each choice. Does nothing for a
  // struct without action_mask().
  void write_mask(std::size_t e, const EnvArrays& out) const {
    if constexpr (MasksActions<Env>) {
      const auto options = static_cast<std::size_t>(mask_elements(spec_.action));
      const std::span<std::uint8_t> allowed(out.action_mask + e * options, options);
      slots_[e].env->action_mask(allowed);
      check_mask(spec_.action, allowed);
    }
  }

  // Where the metrics of environment e belong; null where nobody wants them.
  [[nodiscard]] double* metrics_of(std::size_t e, const EnvArrays& out) const {
    return out.metrics == nullptr ? nullptr : out.metrics + e * spec_.metrics.size();
  }

  // Compares the struct's own types with its spec, once, so that no step has to.
  void check_types() const {
    std::vector<std::string> faults = struct_faults(spec_, {.one_choice = TakesOneChoice<Env>,
                                                            .choices = TakesChoices<Env>,
                                                            .numbers = TakesNumbers<Env>,
                                                            .mask = MasksActions<Env>});
    const auto take = [&](std::vector<std::string> more) { faults.insert(faults.end(), more.begin(), more.end()); };
    take(observation_faults<FirstObservation<Env>>(spec_));
    take(goal_faults<Env>(spec_));
    if constexpr (!std::is_same_v<FirstObservation<Env>, NextObservation<Env>>) {
      take(observation_faults<NextObservation<Env>>(spec_));
    }
    if (!faults.empty()) throw ConfigError(std::move(faults));
  }

  // The caller's arrays must be there; their sizes cannot be seen from here. A fault is a defect of Tandem.
  void check_arrays(const EnvArrays& out) const {
    const std::size_t leaves = spec_.observation.size();
    TANDEM_CHECK(out.observation.size() == leaves, spec_.id, ": ", out.observation.size(), " arrays for ", leaves,
                 " leaves");
    TANDEM_CHECK(out.final_observation.empty() || out.final_observation.size() == leaves, spec_.id);
    TANDEM_CHECK(!spec_.has_action_mask || out.action_mask != nullptr, spec_.id);
  }

  OptionGiver<Env> giver_;
  [[no_unique_address]] MetricKeeper<Env> keeper_;
  std::vector<Slot> slots_;
  const Spec spec_;
  std::function<void(int env)> at_end_;  // of watch_ends()
};

}  // namespace tandem::rl
