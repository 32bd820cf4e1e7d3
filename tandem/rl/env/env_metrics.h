// rl/env/env_metrics.h: numbers of an environment's own that a run reports beside the return: whether the task was
// solved, how far the goal was, which part of the reward came from where.
//
//   struct Reacher {
//     static tandem::rl::MetricsOf<Reacher> metrics() {
//       return {{"success", &Reacher::has_arrived, "Share of the episodes that end at the goal."},
//               {"distance", [](const Reacher& it) { return std::abs(it.place - it.goal); },
//                "Mean distance to the goal, m.", tandem::rl::Over::kSteps}};
//     }
//     ...                                            // the rest as env_concepts.h says
//   };
//
// A metric has a name, a function of the struct that gives a number or a truth value, a sentence for listings, and says
// what it is averaged over: kEpisodes asks once, after the last step of each episode and before the next reset();
// kSteps asks after each step, and an episode's value is the mean of these. Runs report the means over the last 100
// episodes as env/NAME, evaluations those over their own as eval_env/NAME.
//
// A struct of several agents has metrics of the environment as a whole; its episode ends with its last agent. What is
// to be known of each agent is a metric with a name of its own.
//
// The sums of the episode that is under way belong to the saved state of a group. So a run that goes on, on any number
// of replicas and ranks, has the numbers of one that was never stopped. A state of a struct with other metrics is
// refused. Costs: a call of each kSteps metric a step, and of each kEpisodes metric an episode; a struct without
// metrics pays nothing.
//
// Values must be finite: another one ends the run with an EnvError that names the metric, the environment and the step.
//
// Threads: plain values and free functions. They cross the border to plugins (plugin.h).
#pragma once
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/spec.h"
#include "tandem/rl/env/state_bytes.h"

namespace tandem::rl {

/// The metrics of a struct: each with what gives its value.
template <typename Env>
class MetricsOf {
 public:
  /// A metric, and how it is asked for. Written as {"name", value, "help", Over::kSteps}; the last two may be left out.
  /// `value`: a function of the struct, or one of its members, that gives a number or a truth value.
  struct Field {
    template <typename Value>
    Field(std::string name, Value its_value, std::string help = {}, Over over = Over::kEpisodes)
        : metric{std::move(name), std::move(help), over}, value(std::move(its_value)) {
      static_assert(std::is_invocable_r_v<double, const Value&, const Env&>,
                    "a metric's value is a member, a const member function or a function of const Env&, and a number");
    }

    Metric metric;
    std::function<double(const Env&)> value;
  };

  /// Their order is that of listings and of EnvArrays::metrics. Names must differ; the progress shows the first two.
  MetricsOf(std::initializer_list<Field> fields) : fields_(fields) {}

  /// These, and behind them others: for metrics that several structs share.
  [[nodiscard]] MetricsOf with(const MetricsOf& others) const {
    MetricsOf all = *this;
    all.fields_.insert(all.fields_.end(), others.fields_.begin(), others.fields_.end());
    return all;
  }

  /// With the functions, for the adapters.
  [[nodiscard]] const std::vector<Field>& fields() const { return fields_; }
  /// The same without the functions, as Spec::metrics has them.
  /// Names are not judged here but with the spec (check_spec()), so that all faults of an environment come together.
  [[nodiscard]] std::vector<Metric> list() const {
    std::vector<Metric> metrics;
    for (const Field& field : fields_) metrics.push_back(field.metric);
    return metrics;
  }

 private:
  std::vector<Field> fields_;
};

/// A struct with metrics() of its own or of a base class.
template <typename Env>
concept HasMetrics = requires(const Env& env) {
  { Env::metrics().fields().front().value(env) } -> std::same_as<double>;
};
/// Something that looks like metrics() of this page, and may not be: one that is not static, or of another struct.
template <typename Env>
concept MeansMetrics = requires(const Env& env) {
  env.metrics().fields().front().metric;
};

/// Fills the list of a spec from the struct's metrics(). Throws ConfigError where the spec has a list of its own: only
/// metrics() says where the values come from.
template <typename Env, typename ItsSpec>
[[nodiscard]] ItsSpec with_metrics(ItsSpec spec) {
  static_assert(HasMetrics<Env> || !MeansMetrics<Env>,
                "metrics() must be a static member that returns tandem::rl::MetricsOf of the struct or of its base");
  if (!spec.metrics.empty())
    throw ConfigError(
        concat("environment '", spec.id, "': its spec() lists metrics; a struct lists them in metrics()"));
  if constexpr (HasMetrics<Env>) spec.metrics = Env::metrics().list();
  return spec;
}

/// Gathers the metrics of the environments of a group. A struct without metrics has none, and costs nothing.
template <typename Env>
class MetricKeeper {
 public:
  /// Sums over the episode that is under way.
  struct Sums {};
  /// What metrics add to the version of a group's saved state.
  static constexpr std::uint32_t kStateFormat = 0;

  // The functions are those of the other form, below, so that adapters need not ask which form they have. Here nothing
  // is gathered, written or read.
  void begin_episode(Sums& /*sums*/) const {}
  void add_step(const Env& /*env*/, Sums& /*sums*/) const {}
  void tell(const Env& /*env*/, const Sums& /*sums*/, int /*steps*/, double* /*values*/) const {}
  void put(const Sums& /*sums*/, StateWriter& /*writer*/) const {}
  void get(StateReader& /*reader*/, Sums& /*sums*/) const {}
};

template <HasMetrics Env>
class MetricKeeper<Env> {
 public:
  /// By metric; those of kEpisodes stay 0.
  using Sums = std::vector<double>;
  static constexpr std::uint32_t kStateFormat = 2;

  /// Asks the struct for its list, once for all environments of the group.
  MetricKeeper() : fields_(Env::metrics().fields()) {}

  /// Takes memory the first time.
  void begin_episode(Sums& sums) const { sums.assign(fields_.size(), 0.0); }
  /// After each step. Throws EnvError naming a metric whose value is not finite, as tell() does.
  void add_step(const Env& env, Sums& sums) const {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].metric.over == Over::kSteps) sums[i] += asked(fields_[i], env);
    }
  }
  /// Writes the values of an episode that has ended after so many steps, one a metric. Null: nobody wants them.
  void tell(const Env& env, const Sums& sums, int steps, double* values) const {
    if (values == nullptr) return;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      values[i] = fields_[i].metric.over == Over::kSteps ? sums[i] / steps : asked(fields_[i], env);
  }
  /// The sums of an episode, to go on with it elsewhere. get() throws CheckpointError for those of other metrics.
  void put(const Sums& sums, StateWriter& writer) const {
    writer.put(std::uint64_t{fields_.size()});
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      writer.put_text(fields_[i].metric.name);
      writer.put(sums[i]);
    }
  }
  void get(StateReader& reader, Sums& sums) const {
    reader.expect(std::uint64_t{fields_.size()}, "its number of metrics");
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      reader.expect_text(fields_[i].metric.name, "a metric");
      sums[i] = reader.get<double>();
    }
  }

 private:
  using Field = typename decltype(Env::metrics())::Field;

  // The user's function may throw what it likes: adapters call this where they guard calls into users' code.
  [[nodiscard]] static double asked(const Field& field, const Env& env) {
    const double value = field.value(env);
    if (!std::isfinite(value)) throw EnvError(concat("its metric '", field.metric.name, "' is ", value));
    return value;
  }

  std::vector<Field> fields_;
};

}  // namespace tandem::rl
