#include "tandem/rl/env/python/python_envs.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_agents.h"
#include "tandem/rl/env/python/python_spec.h"
#include "tandem/rl/env/python/python_worker.h"

namespace tandem::rl {
namespace {

constexpr std::string_view kGymnasium = "gymnasium:", kPettingZoo = "pettingzoo:", kAtari = "ALE/";
// Seconds, and 2^20 bytes, so that neither overflows.
constexpr double kMostOfLimit = 1e9;

// What workers have said of environments: each takes a second to ask.
class PythonSpecs {
 public:
  // Throws ConfigError where the worker refuses, and where it is lost.
  PythonSpec ask(const std::string& id, const EnvOptionTexts& options, const IsolationOptions& isolation) {
    MutexLock lock(mutex_);
    const auto known = known_.find({id, options});
    if (known != known_.end()) return known->second;
    PythonSpec spec = read_python_spec(id, told_by_worker(id, options, isolation));
    return known_.emplace(std::pair(id, options), std::move(spec)).first->second;
  }

 private:
  // Held while a worker is asked, so that nobody asks the same of a second one.
  Mutex mutex_;
  std::map<std::pair<std::string, EnvOptionTexts>, PythonSpec> known_ TANDEM_GUARDED_BY(mutex_);
};

std::string interpreter_of(const EnvOptionTexts& options) {
  const auto its = std::ranges::find(options, kInterpreterOption, &EnvOptionTexts::value_type::first);
  return its == options.end() ? "python3" : its->second;
}

// Takes out what the training side of the bridge keeps to.
template <typename Number>
std::optional<Number> taken_limit(EnvOptionTexts& options, std::string_view name) {
  const auto its = std::ranges::find(options, name, &EnvOptionTexts::value_type::first);
  if (its == options.end()) return std::nullopt;
  const std::string text = its->second;
  options.erase(its);
  const std::optional<Number> number = parse_number<Number>(text);
  if (!number || !(*number >= 0) || !(static_cast<double>(*number) <= kMostOfLimit))
    throw ConfigError(concat(name, "=", text, ": takes a number from 0 to ", kMostOfLimit));
  return number;
}

// Those that are set, and of Atari the usual ones behind them.
EnvOptionTexts all_options(const std::string& id, EnvOptionTexts options) {
  if (!id.starts_with(kAtari)) return options;
  for (const EnvOption& option : atari_options()) {
    if (std::ranges::count(options, option.name, &EnvOptionTexts::value_type::first) == 0)
      options.emplace_back(option.name, text_of(option.standard));
  }
  return options;
}

// One object steps all environments of a worker, so each would have to be in a worker of its own.
std::string why_no_rows(const std::string& id) {
  return concat(
      id, " steps all environments of a process at once, and with this wrapper each of them would need a ",
      "process of its own; ",
      id.starts_with(kAtari)
          ? "set --env-option frameskip=N or max_num_frames_per_episode=N (frames, not steps) instead"
          : "set options of its own instead, or step them one by one: --env-option python.vectorization=loop");
}

}  // namespace

const std::vector<EnvOption>& atari_options() {
  static const std::vector<EnvOption> kOptions{
      {"frameskip", "Frames for which an action is repeated.", std::int64_t{4}},
      {"maxpool", "The last two of these frames are joined by their maximum.", true},
      {"grayscale", "Grey pictures; false: of three colours.", true},
      {"img_height", "Pixels.", std::int64_t{84}},
      {"img_width", "Pixels.", std::int64_t{84}},
      {"stack_num", "Pictures that an observation holds.", std::int64_t{4}},
      {"noop_max", "An episode begins with up to so many steps that do nothing.", std::int64_t{30}},
      {"use_fire_reset", "Games that wait for the fire button get it.", true},
      {"episodic_life", "A lost life is the end of an episode.", true},
      {"reward_clipping", "Rewards are cut to -1 .. 1.", true},
      {"repeat_action_probability", "Of the last action in the place of the chosen one.", 0.25},
      {"full_action_space", "All 18 actions in each game.", false}};
  return kOptions;
}

bool is_python_env(std::string_view id) {
  return id.starts_with(kGymnasium) || id.starts_with(kPettingZoo) || id.starts_with(kAtari);
}

std::unique_ptr<MultiAgentGroup> python_agents(const MultiAgentSpec& spec, int count, int workers,
                                               const IsolationOptions& isolation,
                                               const std::shared_ptr<RestartBudget>& budget) {
  return std::make_unique<PythonAgents>(spec, in_workers(joint_spec(spec), count, workers, isolation, budget));
}

bool draws_when_asked(std::string_view id) { return id.starts_with(kGymnasium) || id.starts_with(kPettingZoo); }

bool steps_by_threads(std::string_view id) { return id.starts_with(kAtari); }

IsolationOptions python_isolation(IsolationOptions isolation, const std::string& id, const EnvOptionTexts& options) {
  isolation.task = {.env = id, .options = all_options(id, options)};
  EnvOptionTexts& its = isolation.task.options;
  if (const auto seconds = taken_limit<double>(its, kDeadlineOption))
    isolation.deadline = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
  if (const auto mebibytes = taken_limit<std::int64_t>(its, kMemoryOption))
    isolation.most_memory = static_cast<std::uint64_t>(*mebibytes) << 20;
  // Unbuffered, so that nothing of what it prints is lost with it.
  isolation.command = {interpreter_of(options), "-u", "-"};
  isolation.input = python_worker_text();
  isolation.hint = concat("is ", isolation.command.front(), " a Python of 3.9 or later? What it printed stands above");
  return isolation;
}

std::string told_by_worker(const std::string& name, const EnvOptionTexts& options, const IsolationOptions& isolation) {
  IsolationOptions its = python_isolation(isolation, name, options);
  its.task.environments = 1;
  const RegionLayout layout = bare_layout();
  try {
    return WorkerLink(layout, its, nullptr).describe(its.task, kMostDescription);
  } catch (const WorkerLost& lost) {
    throw ConfigError(concat(name, ": ", lost.what()));
  }
}

std::vector<EnvKind> python_kinds(const IsolationOptions& isolation) {
  const auto specs = std::make_shared<PythonSpecs>();
  const auto entry = [specs, isolation](const std::string& id, const EnvOptionTexts& options) {
    std::variant<EnvEntry, MultiAgentEntry> made;
    check_set_once(options);
    const IsolationOptions its = python_isolation(isolation, id, options);
    const PythonSpec found = specs->ask(id, options, isolation);
    if (const auto* several = std::get_if<MultiAgentSpec>(&found.spec)) {
      (void)joint_spec(*several);  // refuses what cannot be made
      made = MultiAgentEntry{
          .spec = *several,
          .make = [spec = *several, its](int count) { return python_agents(spec, count, 1, its, nullptr); },
          .origin = interpreter_of(options)};
      return made;
    }
    const Spec& spec = std::get<Spec>(found.spec);
    made = EnvEntry{.spec = spec,
                    .make = [spec, its](int count) { return in_workers(spec, count, 1, its, nullptr); },
                    .origin = interpreter_of(options),
                    .options = id.starts_with(kAtari) ? atari_options() : std::vector<EnvOption>(),
                    .no_rows = found.is_together ? why_no_rows(id) : ""};
    return made;
  };
  return {{.prefix = std::string(kGymnasium),
           .usage = "gymnasium:ID, gymnasium:MODULE:ID",
           .help = "Any environment of a Python that has gymnasium (--python).",
           .entry = entry},
          {.prefix = std::string(kPettingZoo),
           .usage = "pettingzoo:MODULE",
           .help = "A module's parallel_env(), of a Python that has pettingzoo and gymnasium (--python).",
           .entry = entry},
          {.prefix = std::string(kAtari),
           .usage = "ALE/GAME-v5",
           .help = "Atari, of a Python that has ale_py and gymnasium (--python).",
           .entry = entry}};
}

}  // namespace tandem::rl
