// rl/env/simulator_group.h: turns a user's class that steps many environments at once into an EnvGroup.
//
//   struct Points {
//     explicit Points(int count);                        // environments 0 .. count-1
//     static tandem::rl::Spec spec();
//     void reset(std::size_t env, tandem::rl::NumpyGenerator& random, const tandem::rl::ObservationRow& first);
//     void step(std::span<const float> actions, const tandem::rl::StepOfAll& out);
//   };
//   TANDEM_ENV_PLUGIN(Points)                            // plugin.h; or registry.add<Points>()
//
// A class is taken for one of these when its constructor wants the number of environments and there is none without.
// Its arrays have a row for each environment, so its loops can be vector instructions, or a kernel on a device.
//
// spec     static or const, as of a struct that is one environment (env_concepts.h).
// reset    starts an episode of one environment and writes its first observation. `random` is that environment's own
//          generator, which runs on over episodes; it may be kept by address.
// step     moves all environments and writes all rows. `actions` is [count, action_elements()]: std::int64_t for
//          Discrete and MultiDiscrete, float for Box. Rewards and ends come zeroed. An episode that ends is not
//          restarted here: reset() is called for its environment right after step().
// optional save(std::size_t env) const -> bytes, and load(std::size_t env, std::span<const std::byte>,
//          const ObservationRow& now), which comes after a reset() whose episode is given up: as of one environment
// optional action_mask(std::size_t env, std::span<std::uint8_t> allowed) const, with spec().has_action_mask
// optional render(std::size_t env, Canvas& canvas) const
// optional Options and options() as in env_options.h, and configure(std::size_t env, const Options&): called for each
//          environment after construction, and before each reset() of it
//
// A loop is turned into vector instructions most surely when it is short and touches few arrays. The ends are bytes,
// which in C++ may overlap with anything: write them in a loop of their own (examples/group_env shows it).
//
// The adapter adds what a group owes the runtime: time limits, autoreset in the same step, final observations, checks
// of sizes and values, saved states, and errors that name the environment.
// Environments of one object must not depend on each other: a run gives the same numbers however its environments are
// grouped, and `tandem check` looks whether one is affected by its neighbours.
// Threads: single-thread, as every EnvGroup; groups run in parallel, so objects share no state.
// Errors: what the class throws becomes an EnvError with the place; a form of step() that the spec's actions need and
// the class does not have is a ConfigError.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/canvas.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_faults.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/env_options.h"
#include "tandem/rl/env/observation_writer.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {

/// Rows of observation leaves, one behind the other, which a simulator writes in place: nothing is copied between the
/// simulator and what the policy reads, unless observations are normalised. The memory belongs to the caller of the
/// simulator and is valid during the call.
class ObservationRows {
 public:
  /// Rows `first` .. first + count - 1 of the arrays of all environments.
  ObservationRows(const Spec& spec, const std::vector<std::byte*>& leaves, std::size_t first, std::size_t count)
      : spec_(spec), leaves_(leaves), first_(first), count_(count) {}

  /// [rows, elements] of a leaf, densely. Element is the leaf's type: float, double, std::uint8_t or std::int64_t.
  /// Throws EnvError for another type, and for a leaf that is not there.
  template <typename Element>
  [[nodiscard]] std::span<Element> leaf(std::size_t leaf = 0) const {
    check(leaf, observation::type_of<Element>(), sizeof(Element));
    const auto elements = static_cast<std::size_t>(spec_.observation[leaf].count());
    return {reinterpret_cast<Element*>(leaves_[leaf]) + first_ * elements, count_ * elements};
  }

 private:
  void check(std::size_t leaf, ElementType type, std::size_t bytes) const;

  const Spec& spec_;
  const std::vector<std::byte*>& leaves_;
  const std::size_t first_, count_;
};

/// The observation of one environment, which reset() and load() write: leaf<float>() has the elements of its first
/// leaf.
class ObservationRow : public ObservationRows {
 public:
  ObservationRow(const Spec& spec, const std::vector<std::byte*>& leaves, std::size_t env)
      : ObservationRows(spec, leaves, env, 1) {}
};

/// What a step of all environments writes: an entry, or a row, an environment. Rewards and ends come zeroed, and are
/// 0 or 1 for ends.
struct StepOfAll {
  /// observation.leaf<float>() is [environments, elements] of the first leaf. All rows are written, also of episodes
  /// that end: theirs are the last observations.
  ObservationRows observation;
  std::span<double> reward;
  std::span<std::uint8_t> terminated, truncated;
};

// The forms of the members, as the top of this file lists them. A class may have both forms of step(); the action space
// of its spec decides which one is called.

/// For Discrete and MultiDiscrete: a row of indices an environment.
template <typename Sim>
concept StepsWithChoices = requires(Sim& sim, std::span<const std::int64_t> actions, const StepOfAll& out) {
  sim.step(actions, out);
};
/// For Box: a row of numbers an environment. Runs cut them at finite bounds.
template <typename Sim>
concept StepsWithNumbers = requires(Sim& sim, std::span<const float> actions, const StepOfAll& out) {
  sim.step(actions, out);
};
/// The one member that a class for a single environment never has, so it tells the two kinds apart.
template <typename Sim>
concept StartsOne = requires(Sim& sim, std::size_t env, NumpyGenerator& random, const ObservationRow& first) {
  sim.reset(env, random, first);
};
/// Both save() and load(): with one alone, states count as not saved.
template <typename Sim>
concept SavesEach = requires(Sim& sim, std::size_t env, std::span<const std::byte> state, const ObservationRow& now) {
  { std::as_const(sim).save(env) } -> std::ranges::contiguous_range;
  sim.load(env, state, now);
};
/// Asked for each environment after each step, and after each reset; so a mask should be cheap.
template <typename Sim>
concept MasksEach = requires(const Sim& sim, std::size_t env, std::span<std::uint8_t> allowed) {
  sim.action_mask(env, allowed);
};
/// Called for videos alone, and for the environments that they show.
template <typename Sim>
concept DrawsEach = requires(const Sim& sim, std::size_t env, Canvas& canvas) {
  sim.render(env, canvas);
};
/// With one of the two alone, a class has no options.
template <typename Sim>
concept ConfiguresEach = requires(Sim& sim, std::size_t env, const typename Sim::Options& options) {
  { Sim::options() } -> std::convertible_to<OptionsOf<typename Sim::Options>>;
  sim.configure(env, options);
};

/// Whether a class is made for many environments, and not for one (env_concepts.h): its constructor wants their number,
/// and there is none without, or its reset() wants one of them.
template <typename Sim>
concept SimulatesMany = std::constructible_from<Sim, int> && !std::derived_from<Sim, EnvGroup> &&
                        (!std::default_initializable<Sim> || StartsOne<Sim>);

/// One environment of a simulator, as OptionGiver configures it.
template <typename Sim>
struct OneOfMany {
  Sim* sim;
  std::size_t env;
};
template <ConfiguresEach Sim>
struct OneOfMany<Sim> {
  using Options = typename Sim::Options;
  static OptionsOf<Options> options() { return Sim::options(); }
  void configure(const Options& options) { sim->configure(env, options); }

  Sim* sim;
  std::size_t env;
};

/// A user's object behind one interface, so that all that does not depend on its type is compiled once, and a plugin in
/// a second. Each call is one for all environments, or for the begin of an episode: none is made for a step of one.
class AnySimulator {
 public:
  /// The members that the class has beyond those it must have.
  struct Has {
    bool choices = false, numbers = false;  // forms of step()
    bool saves = false, masks = false, draws = false;
  };

  virtual ~AnySimulator() = default;
  /// The class's own; asked once, after begin() of all environments.
  [[nodiscard]] virtual Spec spec() const = 0;
  /// Known when the class is compiled.
  [[nodiscard]] virtual Has has() const = 0;
  /// Configures an environment that has not been reset yet: gives it the options that all its episodes share. Once,
  /// before its first reset().
  virtual void begin(std::size_t env) = 0;
  /// Begins an episode: draws its options, where it has some that are drawn, and starts it.
  virtual void reset(std::size_t env, NumpyGenerator& random, const ObservationRow& first) = 0;
  /// `elements`: of all actions together, in the array that the spec's actions need.
  virtual void step(const EnvActions& actions, std::size_t elements, const StepOfAll& out) = 0;
  /// Writes 1 for each option that the environment allows now, and 0 for the others. This and the next three are called
  /// only where the class has the member.
  virtual void action_mask(std::size_t env, std::span<std::uint8_t> allowed) const = 0;
  /// Writes the bytes of the class, with their length.
  virtual void save(std::size_t env, StateWriter& writer) const = 0;
  /// Reads them, and writes the observation of the loaded state.
  virtual void load(std::size_t env, std::span<const std::byte> state, const ObservationRow& now) = 0;
  /// Draws one environment as it is now.
  virtual void render(std::size_t env, Canvas& canvas) const = 0;
  /// The format of a saved state, which is another one where there are options; and the options of the episode that is
  /// under way in it. load_options() throws CheckpointError for those of other laws.
  [[nodiscard]] virtual std::uint32_t state_format() const = 0;
  virtual void save_options(std::size_t env, StateWriter& writer) const = 0;
  virtual void load_options(std::size_t env, StateReader& reader) = 0;
  /// Curricula follow it, as EnvGroup::set_progress() says.
  virtual void set_progress(double share) = 0;
};

/// The object of a user's class with `count` environments.
template <typename Sim>
class SimulatorOf final : public AnySimulator {
  static_assert(TellsItsSpec<Sim>, "a simulator needs a member `tandem::rl::Spec spec() const` (static is fine)");
  static_assert(StartsOne<Sim>,
                "a simulator of many environments needs reset(std::size_t env, tandem::rl::NumpyGenerator& random, "
                "const tandem::rl::ObservationRow& first)");
  static_assert(DrawsEach<Sim> || !HasRender<Sim>,
                "render() of a simulator is `void render(std::size_t env, tandem::rl::Canvas& canvas) const`");
  static_assert(StepsWithChoices<Sim> || StepsWithNumbers<Sim>,
                "a simulator of many environments needs step(std::span<const std::int64_t> or std::span<const float> "
                "actions, const tandem::rl::StepOfAll& out)");
  static_assert(
      !requires { Sim::metrics(); },
      "a simulator of many environments has no metrics of its own so far; an EnvGroup has (env_group.h)");

 public:
  /// Throws what the constructor of `Sim` throws, and ConfigError for options that it does not take.
  SimulatorOf(int count, const EnvOptionTexts& options)
      : giver_(options), sim_(count), drawn_(static_cast<std::size_t>(count)) {}

  [[nodiscard]] Spec spec() const override { return sim_.spec(); }
  [[nodiscard]] Has has() const override {
    return {.choices = StepsWithChoices<Sim>,
            .numbers = StepsWithNumbers<Sim>,
            .saves = SavesEach<Sim>,
            .masks = MasksEach<Sim>,
            .draws = DrawsEach<Sim>};
  }
  void begin(std::size_t env) override {
    OneOfMany<Sim> one{&sim_, env};
    giver_.begin(one);
  }
  void reset(std::size_t env, NumpyGenerator& random, const ObservationRow& first) override {
    OneOfMany<Sim> one{&sim_, env};
    giver_.begin_episode(one, random, drawn_[env]);
    sim_.reset(env, random, first);
  }
  void step(const EnvActions& actions, std::size_t elements, const StepOfAll& out) override {
    if (actions.box != nullptr) {
      if constexpr (StepsWithNumbers<Sim>) sim_.step(std::span(actions.box, elements), out);
    } else {
      if constexpr (StepsWithChoices<Sim>) sim_.step(std::span(actions.discrete, elements), out);
    }
  }
  void action_mask(std::size_t env, std::span<std::uint8_t> allowed) const override {
    if constexpr (MasksEach<Sim>) sim_.action_mask(env, allowed);
  }
  void save(std::size_t env, StateWriter& writer) const override {
    if constexpr (SavesEach<Sim>) writer.put_range(sim_.save(env));
  }
  void load(std::size_t env, std::span<const std::byte> state, const ObservationRow& now) override {
    if constexpr (SavesEach<Sim>) sim_.load(env, state, now);
  }
  void render(std::size_t env, Canvas& canvas) const override {
    if constexpr (DrawsEach<Sim>) sim_.render(env, canvas);
  }
  [[nodiscard]] std::uint32_t state_format() const override { return Giver::kStateFormat; }
  void save_options(std::size_t env, StateWriter& writer) const override { giver_.put(drawn_[env], writer); }
  void load_options(std::size_t env, StateReader& reader) override {
    OneOfMany<Sim> one{&sim_, env};
    giver_.get(reader, one, drawn_[env]);
  }
  void set_progress(double share) override { giver_.set_progress(share); }

 private:
  using Giver = OptionGiver<OneOfMany<Sim>>;

  Giver giver_;
  Sim sim_;
  std::vector<typename Giver::Drawn> drawn_;  // by environment
};

/// Makes the object of a group; called once, with the group's number of environments, which is at least 1.
using MakeSimulator = std::function<std::unique_ptr<AnySimulator>(int count)>;
/// A group of the environments of one object. Environment e draws from NumpyGenerator(seeds[e]) until the next reset().
/// Throws ConfigError when count < 1, the spec has faults or does not agree with the class; EnvError when making the
/// object fails. Errors of Tandem's own types pass unchanged, so that a ConfigError of its constructor stays one.
[[nodiscard]] std::unique_ptr<EnvGroup> make_simulator_group(int count, const MakeSimulator& make);

/// The same of a user's class. `options`: of a class that has some.
template <SimulatesMany Sim>
[[nodiscard]] std::unique_ptr<EnvGroup> simulator_group(int count, const EnvOptionTexts& options = {}) {
  return make_simulator_group(count, [&options](int its) -> std::unique_ptr<AnySimulator> {
    return std::make_unique<SimulatorOf<Sim>>(its, options);
  });
}

}  // namespace tandem::rl
