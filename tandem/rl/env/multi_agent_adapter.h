// rl/env/multi_agent_adapter.h: turns a user's struct that is one environment of several agents into a MultiAgentGroup.
//
//   struct Duel {
//     static tandem::rl::MultiAgentSpec spec();
//     void reset(tandem::rl::NumpyGenerator& random);
//     void step(std::span<const tandem::rl::AgentAction> actions, std::span<tandem::rl::AgentOutcome> outcomes);
//     std::array<float, 3> observe(std::size_t agent) const;
//   };
//   std::unique_ptr<MultiAgentGroup> group = std::make_unique<MultiAgentGroupOf<Duel>>(64);
//
// spec     static. Agents are numbered in the order in which it lists them.
// reset    starts an episode, from the environment's own generator, which runs on over episodes; it may be kept.
// step     `actions` and `outcomes` have an entry an agent; the actions of agents that do not act are empty.
//          Outcomes come zeroed; step() writes the rewards, and whose episode ended. The adapter applies the time
//          limit.
// observe  returns what an agent sees now, or saw last when its episode has ended. All agents have one type of
//          observations, as for EnvGroupOf: a std::vector where sizes differ.
// optional acts(std::size_t agent) const: whether it is the agent's turn; without it all agents in the game act at once
// optional action_mask(std::size_t agent, std::span<std::uint8_t> allowed) const, with the agent's has_action_mask
// optional render(Canvas& canvas) const: draws the environment, as for EnvGroupOf
// optional save() const -> bytes and load(std::span<const std::byte>), as for EnvGroupOf
// optional static options() and configure() (env_options.h); static metrics() (env_metrics.h)
//
// Any of these may throw: the run then ends with an EnvError that names the environment, the step and what() of it.
// Threads: single-thread; environments of different groups run in parallel, so they share no state.
// Shapes: every array of `out` and `actions` is given once for each agent, and has a row for each environment. Rows of
// agents that are out of the game keep what was written last, except rewards, ends and `acts`, which are written as 0.
// Seeds: environment e draws from NumpyGenerator(seeds[e]), over all its episodes until the next reset().
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/env_options.h"
#include "tandem/rl/env/numpy_random.h"
#include "tandem/rl/env/observation_writer.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {

/// The action of one agent. Both spans are empty when the agent does not act; when it acts, that of its kind of action
/// space has action_elements() entries. The memory belongs to the caller of step() and lives during the call.
struct AgentAction {
  std::span<const std::int64_t> discrete = {};
  std::span<const float> box = {};
};

/// The result of a step for one agent. An agent whose episode has ended before must be given none. `terminated` says
/// that the task has ended for the agent, `truncated` that its episode was cut short.
struct AgentOutcome {
  double reward = 0;
  bool terminated = false, truncated = false;
};

// The optional members of a struct, as the top of this file lists them.

/// A struct with acts() decides whose actions it wants in the next step.
template <typename Env>
concept TakesTurns = requires(const Env& env, std::size_t agent) {
  { env.acts(agent) } -> std::convertible_to<bool>;
};
/// A struct with action_mask() writes 1 for each option that the agent may choose now, and 0 for the others.
template <typename Env>
concept MasksAgents = requires(const Env& env, std::size_t agent, std::span<std::uint8_t> allowed) {
  env.action_mask(agent, allowed);
};
/// A struct with both can be part of a checkpoint, and its run goes on from the middle of an episode.
template <typename Env>
concept SavesItself = requires(Env& env, std::span<const std::byte> state) {
  { std::as_const(env).save() } -> std::ranges::contiguous_range;
  env.load(state);
};

/// A group of environments of the user's struct `Env`, which has several agents.
template <typename Env>
class MultiAgentGroupOf final : public MultiAgentGroup {
  static_assert(DrawsItself<Env> || !HasRender<Env>,
                "render() of an environment is `void render(tandem::rl::Canvas& canvas) const`");

 public:
  /// Throws ConfigError when count < 1, the spec has faults or does not agree with the struct's own types. What a
  /// constructor of `Env` throws passes unchanged.
  /// `options`: of a struct that has some (env_options.h).
  explicit MultiAgentGroupOf(int count, const EnvOptionTexts& options = {})
      : giver_(options), spec_(with_metrics<Env>(MultiAgentSpec(Env::spec()))), whole_(whole_spec(spec_)) {
    check_spec(spec_);
    if (count < 1) throw ConfigError(concat("a group of ", count, " environments; it needs at least 1"));
    // The spec was checked above, so each agent's part of it can be used.
    for (std::size_t a = 0; a < spec_.agents.size(); ++a) agents_.push_back(agent_spec(spec_, a));
    check_types();
    slots_.resize(static_cast<std::size_t>(count));
    for (Slot& slot : slots_) {
      giver_.begin(slot.env);
      slot.ended.assign(agents_.size(), 0);
      slot.acts.assign(agents_.size(), 0);
    }
    actions_.resize(agents_.size());
    outcomes_.resize(agents_.size());
  }

  [[nodiscard]] const MultiAgentSpec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return static_cast<int>(slots_.size()); }
  /// Throws EnvError when a struct's member function fails, and InvariantError when the numbers of seeds or arrays
  /// differ from those of environments or agents.
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override {
    TANDEM_CHECK(out.size() == agents_.size() && seeds.size() == slots_.size(), spec_.id, ": ", out.size(), " arrays, ",
                 seeds.size(), " seeds");
    for (std::size_t e = 0; e < slots_.size(); ++e) {
      slots_[e].random = NumpyGenerator(seeds[e]);
      start(e, out);
    }
  }
  /// Actions are checked environment by environment, so a bad one leaves the environments before it one step ahead.
  /// Throws EnvError, as reset() does.
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override {
    TANDEM_CHECK(out.size() == agents_.size() && actions.size() == agents_.size(), spec_.id, ": ", out.size(),
                 " arrays, ", actions.size(), " actions");
    for (std::size_t e = 0; e < slots_.size(); ++e) step_one(e, actions, out);
  }
  void set_progress(double share) override { giver_.set_progress(share); }
  /// Known when compiling: the struct has save() and load().
  [[nodiscard]] bool can_save() const override { return SavesItself<Env>; }
  /// The bytes: as EnvGroupOf's, with a byte an agent that says whether it has ended, before the bytes of the struct.
  /// Who acts next follows from the state. Throws EnvError unless can_save(), and when the struct's own save() fails.
  [[nodiscard]] std::vector<std::byte> save() const override {
    if constexpr (!SavesItself<Env>) {
      throw EnvError(concat(spec_.id, ": its states cannot be saved: it has no save() and load()"));
    } else {
      StateWriter writer;
      writer.put_group(kStateFormat, spec_.id, slots_.size());
      for (std::size_t e = 0; e < slots_.size(); ++e) {
        slots_[e].put(writer);
        giver_.put(slots_[e].options, writer);
        keeper_.put(slots_[e].sums, writer);
        // load() compares their number with that of the agents.
        writer.put_bytes(std::as_bytes(std::span(slots_[e].ended)));
        guarded(e, EnvCall::kSave, [&] { writer.put_range(slots_[e].env.save()); });
      }
      return writer.take();
    }
  }
  /// Throws CheckpointError for bytes that do not fit; the environments before the fault are then loaded already, so
  /// the group needs a reset() before its next step.
  void load(std::span<const std::byte> state, std::span<const AgentArrays> out) override {
    if constexpr (!SavesItself<Env>) {
      throw EnvError(concat(spec_.id, ": its states cannot be loaded: it has no save() and load()"));
    } else {
      StateReader reader(state, concat("environment group '", spec_.id, "'"));
      reader.expect_group(kStateFormat, spec_.id, slots_.size());
      for (std::size_t e = 0; e < slots_.size(); ++e) {
        Slot& slot = slots_[e];
        // load() then finds an environment that has been reset, and the rows of agents that have ended are filled.
        start(e, out);
        slot.get(reader, e, spec_.max_episode_steps);
        guarded<CheckpointError>(e, EnvCall::kLoad, [&] { giver_.get(reader, slot.env, slot.options); });
        keeper_.get(reader, slot.sums);
        const std::span<const std::byte> ended = reader.get_bytes();
        if (ended.size() != slot.ended.size()) reader.fail(concat("it has ", ended.size(), " agents"));
        std::memcpy(slot.ended.data(), ended.data(), ended.size());
        const std::span<const std::byte> bytes = reader.get_bytes();
        guarded<CheckpointError>(e, EnvCall::kLoad, [&] {
          slot.env.load(bytes);
          show_next(e, out);
        });
      }
      reader.expect_end();
    }
  }
  /// As of EnvGroupOf: one picture shows the environment with all its agents.
  [[nodiscard]] bool can_render() const override { return DrawsItself<Env>; }
  void render(int env, Canvas& canvas) const override {
    if constexpr (DrawsItself<Env>) {
      const auto e = static_cast<std::size_t>(env);
      TANDEM_CHECK(env >= 0 && e < slots_.size(), env);
      guarded(e, EnvCall::kRender, [&] { std::as_const(slots_[e].env).render(canvas); });
    } else {
      MultiAgentGroup::render(env, canvas);
    }
  }
  void watch_ends(std::function<void(int env)> at_end) override { at_end_ = std::move(at_end); }

 private:
  // Slots never move after construction, as EpisodeState asks.
  struct Slot : EpisodeState {
    Env env;
    [[no_unique_address]] typename OptionGiver<Env>::Drawn options;
    [[no_unique_address]] typename MetricKeeper<Env>::Sums sums;
    // By agent, 0 or 1: whether its own episode has ended; and whether it acts in the next step.
    std::vector<std::uint8_t> ended;
    // It decides whose actions the next step takes; load() makes it anew.
    std::vector<std::uint8_t> acts;
  };
  // Version of the bytes of save(); a change of their layout needs the next number.
  static constexpr std::uint32_t kStateFormat = OptionGiver<Env>::kStateFormat + MetricKeeper<Env>::kStateFormat;

  // Compares the type of observe() with every agent's leaves, and masks with has_action_mask, once.
  void check_types() const {
    using Shown = std::remove_cvref_t<decltype(std::declval<const Env&>().observe(std::size_t{}))>;
    std::vector<std::string> faults;
    for (const Spec& agent : agents_) {
      for (const std::string& fault : observation_faults<Shown>(agent)) faults.push_back(fault);
      if (agent.has_action_mask && !MasksAgents<Env>)
        faults.push_back(concat("environment '", agent.id, "': has_action_mask is set, so it needs ",
                                "action_mask(std::size_t, std::span<std::uint8_t>) const"));
    }
    if (!faults.empty()) throw ConfigError(std::move(faults));
  }

  // Starts an episode of environment e, in which all agents take part again.
  void start(std::size_t e, std::span<const AgentArrays> out) {
    Slot& slot = slots_[e];
    slot.elapsed = 0;
    keeper_.begin_episode(slot.sums);
    std::ranges::fill(slot.ended, std::uint8_t{0});
    guarded(e, EnvCall::kReset, [&] {
      giver_.begin_episode(slot.env, slot.random, slot.options);
      slot.env.reset(slot.random);
      show_next(e, out);
    });
  }

  // One step of environment e: actions in, outcomes and observations out, and the next episode where all agents have
  // ended.
  void step_one(std::size_t e, std::span<const EnvActions> actions, std::span<const AgentArrays> out) {
    Slot& slot = slots_[e];
    bool ended = false;
    guarded(e, EnvCall::kStep, [&] {
      collect_actions(e, actions);
      // An outcome that the struct does not write stays zero: no reward, and no end.
      std::ranges::fill(outcomes_, AgentOutcome{});
      slot.env.step(actions_, outcomes_);
      ended = take_outcomes(e, out);
      if (!ended) show_next(e, out);
      keeper_.add_step(slot.env, slot.sums);
      if (ended) keeper_.tell(slot.env, slot.sums, slot.elapsed + 1, metrics_of(e, out));
    });
    ++slot.elapsed;
    if (!ended) return;
    if (at_end_) at_end_(static_cast<int>(e));
    start(e, out);
  }

  // Fills actions_ from the arrays of all agents. Only actions of agents that act are looked at and checked, since the
  // other rows hold what was left there.
  void collect_actions(std::size_t e, std::span<const EnvActions> actions) {
    for (std::size_t a = 0; a < agents_.size(); ++a) {
      actions_[a] = {};
      if (slots_[e].acts[a] == 0) continue;
      const auto elements = static_cast<std::size_t>(action_elements(agents_[a].action));
      const EnvActions its{.discrete = actions[a].discrete == nullptr ? nullptr : actions[a].discrete + e * elements,
                           .box = actions[a].box == nullptr ? nullptr : actions[a].box + e * elements};
      // One row at a time, because other environments may wait for other agents.
      check_actions(agents_[a], 1, its);
      if (std::holds_alternative<Box>(agents_[a].action)) {
        actions_[a].box = {its.box, elements};
      } else {
        actions_[a].discrete = {its.discrete, elements};
      }
    }
  }

  // Checks and writes the outcomes of a step, applies the time limit to agents in the game, and writes the last
  // observation of agents that end now. Returns whether all agents have ended.
  bool take_outcomes(std::size_t e, std::span<const AgentArrays> out) {
    Slot& slot = slots_[e];
    const bool limit = spec_.max_episode_steps > 0 && slot.elapsed + 1 >= spec_.max_episode_steps;
    bool all = true;
    for (std::size_t a = 0; a < agents_.size(); ++a) {
      const AgentOutcome& outcome = outcomes_[a];
      const std::string& name = spec_.agents[a].name;
      if (!std::isfinite(outcome.reward)) throw EnvError(concat("the reward of ", name, " is ", outcome.reward));
      // A reward after the end would belong to no episode.
      const bool out_of_game = slot.ended[a] != 0;
      if (out_of_game && (outcome.reward != 0 || outcome.terminated || outcome.truncated))
        throw EnvError(concat(name, " has ended before and is given an outcome"));
      out[a].env.reward[e] = outcome.reward;
      out[a].env.terminated[e] = outcome.terminated;
      out[a].env.truncated[e] = outcome.truncated || (limit && !out_of_game);
      const bool ends = out[a].env.terminated[e] != 0 || out[a].env.truncated[e] != 0;
      if (ends && !out[a].env.final_observation.empty())
        write_observation(agents_[a], std::as_const(slot.env).observe(a), out[a].env.final_observation, e);
      slot.ended[a] = out_of_game || ends ? 1 : 0;
      all = all && slot.ended[a] != 0;
    }
    return all;
  }

  // Writes what the agents that are in the game see, and which of them act next, with which options. Throws EnvError
  // when nobody would act although somebody is in the game: the episode could never end.
  void show_next(std::size_t e, std::span<const AgentArrays> out) {
    Slot& slot = slots_[e];
    bool any = false;
    for (std::size_t a = 0; a < agents_.size(); ++a) {
      bool acts = slot.ended[a] == 0;
      // Rows of agents that have ended keep what they show.
      if (acts) write_observation(agents_[a], std::as_const(slot.env).observe(a), out[a].env.observation, e);
      if constexpr (TakesTurns<Env>) acts = acts && std::as_const(slot.env).acts(a);
      out[a].acts[e] = slot.acts[a] = acts ? 1 : 0;
      any = any || acts;
      if constexpr (MasksAgents<Env>) {
        if (!acts || !agents_[a].has_action_mask) continue;
        const auto options = static_cast<std::size_t>(mask_elements(agents_[a].action));
        const std::span<std::uint8_t> allowed(out[a].env.action_mask + e * options, options);
        std::as_const(slot.env).action_mask(a, allowed);
        check_mask(agents_[a].action, allowed);
      }
    }
    if (!any) throw EnvError("no agent acts next, and not all of them have ended");
  }

  // Where the metrics of environment e belong; null where nobody wants them.
  [[nodiscard]] double* metrics_of(std::size_t e, std::span<const AgentArrays> out) const {
    double* const all = out.front().env.metrics;
    return all == nullptr ? nullptr : all + e * spec_.metrics.size();
  }

  // Runs `action`, a call into environment e; its errors become a Failure that says where it was (guard_call()).
  template <typename Failure = EnvError, typename Action>
  void guarded(std::size_t e, EnvCall call, Action&& action) const {
    const auto place = [&] { return describe_call(whole_, call, e, slots_.size(), slots_[e].elapsed); };
    guard_call<Failure>(place, std::forward<Action>(action));
  }

  OptionGiver<Env> giver_;
  [[no_unique_address]] MetricKeeper<Env> keeper_;
  const MultiAgentSpec spec_;
  // The whole environment, for messages; and each agent alone, as the functions for one agent take it. They are made
  // once from spec_, so that no step builds a spec.
  const Spec whole_;
  std::vector<Spec> agents_;
  std::vector<Slot> slots_;
  // By agent: scratch for one environment's step, so that no step takes memory.
  std::vector<AgentAction> actions_;
  std::vector<AgentOutcome> outcomes_;
  std::function<void(int env)> at_end_;  // of watch_ends()
};

}  // namespace tandem::rl
