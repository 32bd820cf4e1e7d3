// rl/env/spec.h: what an environment shows and takes, to and from one agent or several: its observations, actions, time
// limit and masks.
//
// Plain values, immutable once handed to the runtime. They cross the border to plugins: a change of a struct here needs
// a new kEnvInterface (plugin.h). Threads: free functions on values. Errors: check_spec() throws ConfigError; nothing
// else here fails.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tandem::rl {

/// Element type of an observation leaf as it lies in memory. Policies see float64 as float32, normalised before where
/// the run normalises observations. So float64 is for numbers that float32 does not tell apart, such as a clock beside
/// its start.
enum class ElementType { kFloat32, kUInt8, kInt64, kFloat64 };

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : type == ElementType::kUInt8 ? 1 : 8;
}
/// Whether elements are real numbers, which can be normalised.
[[nodiscard]] constexpr bool is_float(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat64;
}

/// One array of an observation. A plain observation is one leaf; a dict or tuple observation has several, whose order
/// is that of Spec::observation everywhere. Rows are stored densely, in row-major order.
struct Leaf {
  std::string name = "obs";
  ElementType type = ElementType::kFloat32;
  /// Without the environment dimension; empty for a scalar. An image is {channels, height, width}.
  std::vector<std::int64_t> shape = {};
  /// Bounds of each element, both inclusive; both empty when there are none. They scale uint8 leaves and decide the
  /// options of int64 ones in policies of Tandem's; so an int64 outside of them is an error when it is shown. Others
  /// are not compared with them in training, only by check_env() (check/env_check.h).
  std::vector<double> low = {}, high = {};

  /// The elements of one observation: the product of `shape`, 1 for a scalar.
  [[nodiscard]] std::int64_t count() const;
  /// The bytes of one observation in memory.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(type); }
  friend bool operator==(const Leaf&, const Leaf&) = default;
};

/// One of `n` actions, 0 .. n-1. The action is one int64 in memory.
struct Discrete {
  std::int64_t n = 0;
  friend bool operator==(const Discrete&, const Discrete&) = default;
};
/// Several discrete choices made together; `n[i]` options for the i-th. The action is n.size() int64 in memory, in the
/// order of the choices.
struct MultiDiscrete {
  std::vector<std::int64_t> n = {};
  friend bool operator==(const MultiDiscrete&, const MultiDiscrete&) = default;
};
/// A vector of real numbers within `low` .. `high`, element by element. The action is low.size() float32 in memory.
/// Policies may draw beyond the bounds; runs cut actions at them before a step (action_family.h).
struct Box {
  std::vector<double> low = {}, high = {};
  friend bool operator==(const Box&, const Box&) = default;
};
using ActionSpace = std::variant<Discrete, MultiDiscrete, Box>;

/// Elements of one action in memory: Discrete 1, MultiDiscrete n.size(), Box low.size().
[[nodiscard]] std::int64_t action_elements(const ActionSpace& space);
/// Entries of the action mask: the sum of all options of a (multi-)discrete space; 0 for a Box. The options of the
/// first choice come first.
[[nodiscard]] std::int64_t mask_elements(const ActionSpace& space);

/// The options of each discrete choice; none for a Box.
[[nodiscard]] std::vector<std::int64_t> choices_of(const ActionSpace& space);

/// What a metric is averaged over. kEpisodes: its value at the end of each episode. kSteps: its values after each step;
/// an episode's value is their mean.
enum class Over { kEpisodes, kSteps };

/// A number of an environment's own that a run reports beside the return: whether the task was solved, how far the goal
/// was. An adapter fills the list from the struct's metrics() (env_metrics.h); a group that steps many environments
/// itself lists them in its spec, forms the means over steps itself, and writes one value an episode.
struct Metric {
  /// An is_plain_name(), unlike the other metrics'. Reports call it "env/NAME".
  std::string name;
  /// A sentence for listings; may be empty.
  std::string help = {};
  Over over = Over::kEpisodes;
};
/// An environment has no more metrics than these: each travels with every episode, and is a column of every line of
/// metrics.
inline constexpr std::size_t kMostMetrics = 64;

/// An environment of one agent. Environments of several have a MultiAgentSpec.
struct Spec {
  /// "CartPole-v1": the name in the registry.
  std::string id;
  std::vector<Leaf> observation = {};
  ActionSpace action = {};
  /// The time limit in steps, which the adapter applies as a truncation; 0: none. The limit truncates an episode and
  /// does not terminate it, so its last value is bootstrapped.
  int max_episode_steps = 0;
  /// The return at which the task counts as solved. It must be finite where it is given.
  std::optional<double> reward_threshold = {};
  /// Always 1 but in the whole_spec() of several agents.
  int agents = 1;
  /// Whether reset() and step() fill EnvArrays::action_mask. Only for discrete actions. A Box with masks is a fault.
  bool has_action_mask = false;
  /// Steps that a video shows in a second, so that it has the speed of the task; 0: not said, which shows 30. At most
  /// 1000. Training does not look at it.
  double render_fps = 0;
  /// What is written to EnvArrays::metrics at the end of each episode, in this order.
  std::vector<Metric> metrics = {};
};

/// One agent. Its fields mean what they mean in Spec. Agents may differ in all of them; one policy can serve agents
/// that differ in the name only (policy_map.h).
struct AgentSpec {
  /// "player_0": unlike those of the other agents, and an is_plain_name().
  std::string name;
  std::vector<Leaf> observation = {};
  ActionSpace action = {};
  bool has_action_mask = false;
};

/// Agents are known by their index in `agents` everywhere but in messages and configurations.
struct MultiAgentSpec {
  /// "KuhnPoker-v0": the name in the registry.
  std::string id;
  std::vector<AgentSpec> agents = {};
  /// The time limit in steps of the environment, which cuts short all agents that are still in the game; 0: none.
  int max_episode_steps = 0;
  /// The return, summed over all agents, at which the task counts as solved.
  std::optional<double> reward_threshold = {};
  /// As of Spec.
  double render_fps = 0;
  /// As Spec::metrics, of the environment as a whole: an episode ends with its last agent.
  std::vector<Metric> metrics = {};
};

/// Everything that is wrong with a spec, and with each agent's part of it, one sentence each, naming the field and its
/// value; empty when it can be used.
[[nodiscard]] std::vector<std::string> spec_faults(const Spec& spec);
[[nodiscard]] std::vector<std::string> spec_faults(const MultiAgentSpec& spec);
/// Throws ConfigError with all of spec_faults().
void check_spec(const Spec& spec);
void check_spec(const MultiAgentSpec& spec);

/// The spec of one agent alone, as its policy sees it; its id is "KuhnPoker-v0/player_0". It is what functions for
/// environments of one agent take, such as check_actions().
[[nodiscard]] Spec agent_spec(const MultiAgentSpec& spec, std::size_t agent);
/// The environment as a whole, as reports and listings name it: id, time limit, threshold, the number of agents and the
/// metrics, without observations and actions.
[[nodiscard]] Spec whole_spec(const MultiAgentSpec& spec);

/// Whether a word can name an agent, a policy or a metric, and so become part of the names of metrics and files: 1 to
/// 64 lower-case letters, digits, '_' and '-'.
[[nodiscard]] bool is_plain_name(const std::string& name);

/// For messages and listings: "obs float32[4]", "Discrete(2)", "MultiDiscrete(3, 2)", "Box(1) in [-2, 2]".
[[nodiscard]] std::string describe(const Leaf& leaf);
[[nodiscard]] std::string describe(const ActionSpace& space);
/// "float32", "uint8", "int64", "float64".
[[nodiscard]] const char* name_of(ElementType type);

}  // namespace tandem::rl
