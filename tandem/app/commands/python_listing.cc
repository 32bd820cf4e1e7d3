#include "tandem/app/commands/python_listing.h"

#include <algorithm>
#include <array>

#include "tandem/app/commands/columns.h"
#include "tandem/app/config/presets.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// The algorithms that have settings for it.
std::vector<std::string> shipped_for(const std::string& env) {
  std::vector<std::string> algorithms;
  for (const Preset& preset : presets()) {
    if (find_preset(preset.algo, env) == &preset) algorithms.emplace_back(preset.algo);
  }
  return algorithms;
}

// What a shell takes as one word.
std::string pip_install(const std::string& python, const std::vector<std::string>& packages) {
  const auto quoted = [](const std::string& package) {
    return package.find('[') == std::string::npos ? package : concat("'", package, "'");
  };
  return concat(python, " -m pip install ", joined(packages, quoted, " "));
}

std::string names_text(const std::string& name, const rl::PythonList& list) {
  if (list.names.empty()) return concat("There is no environment whose name begins with ", name, "\n");
  std::vector<std::array<std::string, 4>> rows{{"name", "of", "shipped settings", ""}};
  for (const rl::PythonName& its : list.names) {
    const std::string lack = its.lacks ? concat("needs ", *its.lacks) : "";
    rows.push_back({its.name, its.of, joined(shipped_for(its.name)), lack});
  }
  const auto shown = static_cast<std::int64_t>(list.names.size());
  return concat(in_columns(rows), shown < list.count ? concat("and ", list.count - shown, " more\n") : "");
}

std::string lacks_text(const rl::PythonList& list) {
  std::vector<std::string> lacks;
  for (const rl::PythonName& its : list.names) {
    if (its.lacks && std::ranges::count(lacks, *its.lacks) == 0) lacks.push_back(*its.lacks);
  }
  return lacks.empty() ? "" : concat("\nwhat is needed: ", pip_install(list.python, lacks), "\n");
}

std::string packages_text(const rl::PythonList& list, const std::string& flag) {
  std::vector<std::array<std::string, 2>> rows;
  for (const rl::PythonPackage& its : list.packages)
    rows.push_back({concat(its.name, " ", its.version), its.lists ? concat("tandem envs ", *its.lists, flag) : ""});
  for (const std::string& its : list.absent)
    rows.push_back({its, concat("not there: ", pip_install(list.python, {its}))});
  return concat("\npackages of this Python that have environments, and what lists them\n", in_columns(rows));
}

}  // namespace

std::string kinds_text(const std::vector<rl::EnvKind>& kinds, const std::optional<std::filesystem::path>& python) {
  if (kinds.empty()) return "";
  std::vector<std::array<std::string, 2>> rows;
  for (const rl::EnvKind& kind : kinds) rows.push_back({kind.usage, kind.help});
  std::string its;
  try {
    const std::string path = python_of(python).string();
    its = concat("That Python is ", path, ". What it has:\n  tandem envs gymnasium:\nWhat brings more, such as\n  ",
                 pip_install(path, {"gymnasium[box2d]", "ale-py", "minigrid", "pettingzoo"}), "\n");
  } catch (const ConfigError& error) {
    its = concat("Now ", error.what(), "\n");
  }
  return concat("\nthrough Python\n", in_columns(rows), its);
}

std::string list_text(const std::string& name, const rl::PythonList& list,
                      const std::optional<std::filesystem::path>& python) {
  const std::string flag = python ? concat(" --python ", python->string()) : "";
  return concat("Python ", list.version, ": ", list.python, "\n\n", names_text(name, list), lacks_text(list),
                packages_text(list, flag), "\n`tandem envs NAME", flag, "` describes one.\n");
}

void write_list(JsonWriter& json, const rl::PythonList& list) {
  const auto write = [&json](const char* key, const std::optional<std::string>& text) {
    json.key(key);
    text ? json.value(*text) : json.value(nullptr);
  };
  json.begin_object().key("python").value(list.python).key("version").value(list.version);
  json.key("count").value(list.count).key("names").begin_array();
  for (const rl::PythonName& its : list.names) {
    json.begin_object().key("name").value(its.name).key("of").value(its.of);
    write("lacks", its.lacks);
    json.key("shipped_for").begin_array();
    for (const std::string& algorithm : shipped_for(its.name)) json.value(algorithm);
    json.end_array().end_object();
  }
  json.end_array().key("packages").begin_array();
  for (const rl::PythonPackage& its : list.packages) {
    json.begin_object().key("name").value(its.name).key("version").value(its.version);
    write("lists", its.lists);
    json.end_object();
  }
  json.end_array().key("absent").begin_array();
  for (const std::string& its : list.absent) json.value(its);
  json.end_array().end_object();
}

}  // namespace tandem::app
