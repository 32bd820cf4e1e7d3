#include "tandem/rl/env/python/python_envs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_agents.h"
#include "tandem/rl/env/python/python_spec.h"
#include "tandem/rl/env/python/python_worker.h"

namespace tandem::rl {
namespace {

constexpr std::string_view kGymnasium = "gymnasium:", kPettingZoo = "pettingzoo:", kAtari = "ALE/";

// What workers have said of environments: each takes a second to ask.
class PythonSpecs {
 public:
  // Throws ConfigError where the worker refuses, and where it is lost.
  PythonSpec ask(const std::string& id, const EnvOptionTexts& options, const IsolationOptions& isolation) {
    MutexLock lock(mutex_);
    const auto known = known_.find({id, options});
    if (known != known_.end()) return known->second;
    IsolationOptions its = python_isolation(isolation, id, options);
    its.task.environments = 1;
    const RegionLayout layout = bare_layout();
    std::string json;
    try {
      json = WorkerLink(layout, its, nullptr).describe(its.task, kMostDescription);
    } catch (const WorkerLost& lost) {
      throw ConfigError(concat(id, ": ", lost.what()));
    }
    PythonSpec spec = read_python_spec(id, json);
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

// Those that are set, and of Atari the usual ones behind them.
EnvOptionTexts all_options(const std::string& id, EnvOptionTexts options) {
  if (!id.starts_with(kAtari)) return options;
  for (const EnvOption& option : atari_options()) {
    if (std::ranges::count(options, option.name, &EnvOptionTexts::value_type::first) == 0)
      options.emplace_back(option.name, text_of(option.standard));
  }
  return options;
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

bool steps_by_threads(std::string_view id) { return id.starts_with(kAtari); }

IsolationOptions python_isolation(IsolationOptions isolation, const std::string& id, const EnvOptionTexts& options) {
  isolation.task = {.env = id, .options = all_options(id, options)};
  // Unbuffered, so that nothing of what it prints is lost with it.
  isolation.command = {interpreter_of(options), "-u", "-"};
  isolation.input = python_worker_text();
  isolation.hint = concat("is ", isolation.command.front(), " a Python of 3.9 or later? What it printed stands above");
  return isolation;
}

std::vector<EnvKind> python_kinds(const IsolationOptions& isolation) {
  const auto specs = std::make_shared<PythonSpecs>();
  const auto entry = [specs, isolation](const std::string& id, const EnvOptionTexts& options) {
    std::variant<EnvEntry, MultiAgentEntry> made;
    const IsolationOptions its = python_isolation(isolation, id, options);
    const std::variant<Spec, MultiAgentSpec> found = specs->ask(id, options, isolation).spec;
    if (const auto* several = std::get_if<MultiAgentSpec>(&found)) {
      (void)joint_spec(*several);  // refuses what cannot be made
      made = MultiAgentEntry{
          .spec = *several,
          .make = [spec = *several, its](int count) { return python_agents(spec, count, 1, its, nullptr); },
          .origin = interpreter_of(options)};
      return made;
    }
    const Spec& spec = std::get<Spec>(found);
    made = EnvEntry{.spec = spec,
                    .make = [spec, its](int count) { return in_workers(spec, count, 1, its, nullptr); },
                    .origin = interpreter_of(options),
                    .options = id.starts_with(kAtari) ? atari_options() : std::vector<EnvOption>()};
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
