#include "tandem/app/train/python_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "tandem/app/run/other_program.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path python_of(const std::optional<std::filesystem::path>& named) {
  if (named && named->has_parent_path()) {
    const std::filesystem::path path = std::filesystem::absolute(*named).lexically_normal();
    if (is_program(path)) return path;
    throw ConfigError(concat("there is no program ", path.string(), "; name a Python, as /usr/bin/python3"));
  }
  const std::string active = variable("VIRTUAL_ENV");
  if (!named && !active.empty()) {
    const std::filesystem::path path = std::filesystem::path(active) / "bin" / "python";
    if (path.is_absolute() && is_program(path)) return path;
    throw ConfigError(concat("the active virtual environment, ", active,
                             " (VIRTUAL_ENV), has no Python; make it anew, ", "or name a Python by --python"));
  }
  const std::filesystem::path name = named.value_or("python3");
  if (const auto path = find_program({name.string()})) return *path;
  throw ConfigError(concat("there is no ", name.string(),
                           " in PATH, which would step the environment; install it, or name a Python by --python"));
}

rl::EnvOptionTexts env_option_texts(const std::string& env, const std::vector<std::string>& items,
                                    const std::optional<std::filesystem::path>& python) {
  rl::EnvOptionTexts texts = option_texts(items);
  if (!rl::is_python_env(env)) return texts;
  const std::array<std::pair<const char*, const char*>, 3> own{
      {{rl::kInterpreterOption, "--python (python: in a file)"},
       {rl::kDeadlineOption, "env_deadline_seconds"},
       {rl::kMemoryOption, "env_memory_mb"}}};
  for (const auto& [name, setter] : own) {
    if (std::ranges::count(texts, name, &rl::EnvOptionTexts::value_type::first) > 0)
      throw ConfigError(concat(name, " is set by ", setter));
  }
  texts.emplace_back(rl::kInterpreterOption, python_of(python).string());
  return texts;
}

rl::EnvOptionTexts env_option_texts(const TrainOptions& options) {
  rl::EnvOptionTexts texts = env_option_texts(options.env, options.env_options, options.python);
  if (!rl::is_python_env(options.env)) return texts;
  texts.emplace_back(rl::kDeadlineOption, rl::text_of(options.env_deadline_seconds));
  texts.emplace_back(rl::kMemoryOption, std::to_string(options.env_memory_mb));
  return texts;
}

}  // namespace tandem::app
