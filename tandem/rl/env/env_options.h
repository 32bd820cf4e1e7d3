// rl/env/env_options.h: the parameters of an environment: gravity, the size of a map, how strong the wind is.
//
//   struct Pole {
//     struct Options {
//       double gravity = 9.8;
//       std::int64_t poles = 1;
//     };
//     static tandem::rl::OptionsOf<Options> options() {
//       return {{"gravity", &Options::gravity, "Acceleration downwards, m/s^2.", {.least = 0.1, .most = 100}},
//               {"poles", &Options::poles, "Poles on the cart.", {.least = 1, .most = 2}}};
//     }
//     void configure(const Options& options);
//     ...                                            // the rest as env_concepts.h says
//   };
//
// configure() is called once after construction, and before each reset(). Members are double, std::int64_t, bool or
// std::string; their defaults are those of Options{}. A spec() that is not static is asked after the first configure(),
// and may depend on options that stay as they are.
//
// An option is set to a text (EnvLaw): a value, or a law by which each episode of each environment gets its own.
//
//   gravity=5                       the same in all episodes
//   gravity=uniform(0.8, 1.2)       drawn for each episode (domain randomisation); log_uniform: of its logarithm
//   floor=choice(flat, steep)       one of these
//   gravity=linear(5, 9.8)          follows the run from its first step to its last (a curriculum)
//
// Draws come from the environment's own generator, before its reset() draws: so equal seeds give equal episodes, on any
// topology, and a saved state holds the options of the episode that is under way.
//
// Threads: plain values and free functions. They cross the border to plugins (plugin.h). Errors: ConfigError naming the
// option, the text and what would be right.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/numpy_random.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {

/// The alternative is the type of the struct's member.
using EnvOptionValue = std::variant<double, std::int64_t, bool, std::string>;
/// "9.8", "true", "flat": as EnvLaw reads it.
[[nodiscard]] std::string text_of(const EnvOptionValue& value);

/// The values that an option may have: numbers within bounds, both inclusive; words that are among some.
struct EnvOptionLimits {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};  // empty: any
};

/// An option as it is listed and checked, whatever its struct is.
struct EnvOption {
  std::string name, help;
  EnvOptionValue standard;  // its type is the option's
  EnvOptionLimits limits = {};
};
/// "a number", "an integer", "true or false" or "a word".
[[nodiscard]] const char* type_of(const EnvOption& option);

/// How an option gets its values.
class EnvLaw {
 public:
  /// Reads VALUE, uniform(LOW, HIGH), log_uniform(LOW, HIGH), choice(VALUE, ...) or linear(FROM, TO). Bounds are
  /// inclusive; integers are drawn as integers. Throws ConfigError for a text that is none of these, or whose values
  /// the option does not take.
  EnvLaw(const EnvOption& option, std::string_view text);

  /// The value of an episode that begins when the share `progress`, from 0 to 1, of the run's steps is made. Laws of
  /// chance draw from `random`, others do not.
  [[nodiscard]] EnvOptionValue value(double progress, NumpyGenerator& random) const;
  /// Whether all episodes have the same value.
  [[nodiscard]] bool is_constant() const { return kind_ == Kind::kConstant; }

 private:
  enum class Kind { kConstant, kUniform, kLogUniform, kChoice, kLinear };

  Kind kind_ = Kind::kConstant;
  std::vector<EnvOptionValue> values_;
};

/// The text of each option that is set, by name.
using EnvOptionTexts = std::vector<std::pair<std::string, std::string>>;
/// Called before anything is made, so that a user mends all of them at once.
/// Throws ConfigError with all faults: of names that are no option (with the nearest one), that are set twice, and of
/// texts. `env` is named in them.
void check_options(const std::string& env, const std::vector<EnvOption>& options, const EnvOptionTexts& texts);
/// For options that only somebody else knows: throws ConfigError with those that are set twice.
void check_set_once(const EnvOptionTexts& texts);

/// The options of a struct: each with the member of `Options` that it sets.
template <typename Options>
class OptionsOf {
 public:
  /// An option, and how it is set. Written as {"gravity", &Options::gravity, "help", limits}; `limits` may be left out.
  /// The member may be one of a base of `Options`.
  struct Field {
    template <typename Member, typename Owner>
    requires std::derived_from<Options, Owner> Field(std::string name, Member Owner::*member, std::string help,
                                                     EnvOptionLimits limits = {})
        : option{std::move(name), std::move(help), EnvOptionValue(Options{}.*member), std::move(limits)},
          set([member](Options& to, const EnvOptionValue& value) { to.*member = std::get<Member>(value); }) {
      static_assert(std::same_as<Member, double> || std::same_as<Member, std::int64_t> || std::same_as<Member, bool> ||
                        std::same_as<Member, std::string>,
                    "an option is a double, std::int64_t, bool or std::string");
    }

    EnvOption option;
    std::function<void(Options&, const EnvOptionValue&)> set;
  };

  /// Their order is that of listings. Names must differ.
  OptionsOf(std::initializer_list<Field> fields) : fields_(fields) {}

  /// These, and behind them others: for options that several structs share.
  [[nodiscard]] OptionsOf with(const OptionsOf& others) const {
    OptionsOf all = *this;
    all.fields_.insert(all.fields_.end(), others.fields_.begin(), others.fields_.end());
    return all;
  }

  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  /// The same without the members, which only the struct's own code knows.
  [[nodiscard]] std::vector<EnvOption> list() const {
    std::vector<EnvOption> options;
    for (const Field& field : fields_) options.push_back(field.option);
    return options;
  }

 private:
  std::vector<Field> fields_;
};

/// A struct with options() and configure(). A struct with one of them alone has no options, as one with neither.
template <typename Env>
concept HasOptions = requires(Env& env, const typename Env::Options& options) {
  { Env::options() } -> std::convertible_to<OptionsOf<typename Env::Options>>;
  env.configure(options);
};

/// Gives the environments of a group their options, each before its episodes. A struct without options takes none.
template <typename Env>
class OptionGiver {
 public:
  /// The options of an episode.
  struct Drawn {};
  static constexpr std::uint32_t kStateFormat = 1;

  /// Throws ConfigError unless `texts` is empty.
  explicit OptionGiver(const EnvOptionTexts& texts) { check_options("the environment", {}, texts); }
  /// Nothing is drawn, written or read.
  void set_progress(double /*share*/) {}
  void begin(Env& /*env*/) const {}
  void begin_episode(Env& /*env*/, NumpyGenerator& /*random*/, Drawn& /*drawn*/) const {}
  void put(const Drawn& /*drawn*/, StateWriter& /*writer*/) const {}
  void get(StateReader& /*reader*/, Env& /*env*/, Drawn& /*drawn*/) const {}
};

template <HasOptions Env>
class OptionGiver<Env> {
 public:
  using Options = typename Env::Options;
  /// In the order of the laws.
  using Drawn = std::vector<EnvOptionValue>;
  static constexpr std::uint32_t kStateFormat = 2;

  /// Throws as check_options() does.
  explicit OptionGiver(const EnvOptionTexts& texts) : fields_(Env::options().fields()) {
    check_options("the environment", Env::options().list(), texts);
    for (const auto& [name, text] : texts) {
      for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (fields_[i].option.name == name) laws_.emplace_back(i, EnvLaw(fields_[i].option, text));
      }
    }
  }

  /// The share of the run's steps that are made, from 0 to 1, for episodes that begin from now on.
  void set_progress(double share) { progress_ = share; }
  /// Once, before the environment is asked for anything: what is not the same in all episodes stands at its default.
  void begin(Env& env) const {
    Options options;
    NumpyGenerator unused;
    for (const auto& [field, law] : laws_) {
      if (law.is_constant()) fields_[field].set(options, law.value(0, unused));
    }
    env.configure(options);
  }
  /// Before a reset(). `random`: the environment's generator.
  void begin_episode(Env& env, NumpyGenerator& random, Drawn& drawn) const {
    drawn.clear();
    for (const auto& [field, law] : laws_) drawn.push_back(law.value(progress_, random));
    env.configure(options_of(drawn));
  }
  /// The options of an episode, to go on with it elsewhere. get() throws CheckpointError for those of other laws.
  void put(const Drawn& drawn, StateWriter& writer) const {
    writer.put(std::uint64_t{drawn.size()});
    for (const EnvOptionValue& value : drawn) writer.put_text(text_of(value));
  }
  void get(StateReader& reader, Env& env, Drawn& drawn) const {
    reader.expect(std::uint64_t{laws_.size()}, "its number of options that are set");
    drawn.clear();
    NumpyGenerator unused;
    for (const auto& [field, law] : laws_) {
      const std::string text(reader.get_text());
      try {
        drawn.push_back(EnvLaw(fields_[field].option, text).value(0, unused));
      } catch (const ConfigError& error) {
        reader.fail(error.what());
      }
    }
    env.configure(options_of(drawn));
  }

 private:
  [[nodiscard]] Options options_of(const Drawn& values) const {
    Options options;
    for (std::size_t i = 0; i < values.size(); ++i) fields_[laws_[i].first].set(options, values[i]);
    return options;
  }

  // All of the struct; those that are not set stay at their defaults.
  std::vector<typename OptionsOf<Options>::Field> fields_;
  std::vector<std::pair<std::size_t, EnvLaw>> laws_;  // of the options that are set, with the index of their field
  double progress_ = 0;
};

}  // namespace tandem::rl
