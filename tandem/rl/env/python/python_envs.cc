#include "tandem/rl/env/python/python_envs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/isolated/isolated_envs.h"
#include "tandem/rl/env/python/python_spec.h"
#include "tandem/rl/env/python/python_worker.h"

namespace tandem::rl {
namespace {

constexpr std::string_view kGymnasium = "gymnasium:", kAtari = "ALE/";

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

}  // namespace

bool is_python_env(std::string_view id) { return id.starts_with(kGymnasium) || id.starts_with(kAtari); }

bool steps_by_threads(std::string_view id) { return id.starts_with(kAtari); }

IsolationOptions python_isolation(IsolationOptions isolation, const std::string& id, const EnvOptionTexts& options) {
  isolation.task = {.env = id, .options = options};
  // Unbuffered, so that nothing of what it prints is lost with it.
  isolation.command = {interpreter_of(options), "-u", "-"};
  isolation.input = python_worker_text();
  isolation.hint = concat("is ", isolation.command.front(), " a Python of 3.9 or later? What it printed stands above");
  return isolation;
}

std::vector<EnvKind> python_kinds(const IsolationOptions& isolation) {
  const auto specs = std::make_shared<PythonSpecs>();
  const auto entry = [specs, isolation](const std::string& id, const EnvOptionTexts& options) -> EnvEntry {
    const Spec spec = specs->ask(id, options, isolation).spec;
    return {.spec = spec,
            .make = [spec, its = python_isolation(isolation, id, options)](int count) -> std::unique_ptr<EnvGroup> {
              return std::make_unique<IsolatedEnvs>(spec, count, its, nullptr);
            },
            .origin = interpreter_of(options)};
  };
  return {{.prefix = std::string(kGymnasium),
           .usage = "gymnasium:ID, gymnasium:MODULE:ID",
           .help = "Any environment of a Python that has gymnasium (--python).",
           .entry = entry},
          {.prefix = std::string(kAtari),
           .usage = "ALE/GAME-v5",
           .help = "Atari, of a Python that has ale_py and gymnasium (--python).",
           .entry = entry}};
}

}  // namespace tandem::rl
