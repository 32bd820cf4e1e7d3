// rl/env/python/python_list.h: which environments a Python has, where none of them is named yet:
//
//   if (is_python_list("gymnasium:")) PythonList list = read_python_list(name, told_by_worker(name, {}, isolation));
//
// "gymnasium:" stands for those that gymnasium registers itself, "gymnasium:MODULE:" for those that a module brings,
// "pettingzoo:" for the modules of the parallel API, and "ALE/" for Atari's games. The worker (worker/listing.py) makes
// none of them. Free functions on values. Threads: all.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::rl {

/// A name that can be trained on, once what it lacks is there.
struct PythonName {
  std::string name;
  /// The package that makes it.
  std::string of;
  /// What has to be installed for it, as pip is told: "gymnasium[box2d]".
  std::optional<std::string> lacks = {};
};

/// An installed package that has environments.
struct PythonPackage {
  std::string name, version;
  /// What lists them: "gymnasium:minigrid:".
  std::optional<std::string> lists = {};
};

struct PythonList {
  /// The interpreter and its version: "3.11.7".
  std::string python, version;
  /// How many names there are, of which `names` holds the first ones.
  std::int64_t count = 0;
  std::vector<PythonName> names = {};
  std::vector<PythonPackage> packages = {};
  /// Well-known packages that are not installed.
  std::vector<std::string> absent = {};
};

/// Whether a name stands for those that begin so.
[[nodiscard]] bool is_python_list(std::string_view name);

/// Reads what a worker says. Throws ConfigError, which begins with `name`, for a text that is no list.
[[nodiscard]] PythonList read_python_list(const std::string& name, std::string_view json);

}  // namespace tandem::rl
