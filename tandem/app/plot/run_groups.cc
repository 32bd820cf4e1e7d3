#include "tandem/app/plot/run_groups.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "tandem/app/config/configuration.h"
#include "tandem/app/run/seed_folders.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// A path with a slash at its end has no file name, so its parent is the folder.
std::filesystem::path whole_path(const RunPaths& paths) {
  const std::filesystem::path folder = std::filesystem::absolute(paths.place()).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

// "three" for the runs in three/seed-0 and three/seed-1, "three/seed-0" for one of them alone, and else the name of the
// first run's folder.
std::string name_of(const RunGroup& group) {
  const std::filesystem::path first = whole_path(group.front()->run->paths);
  if (!is_seed_folder(first)) return first.filename().string();
  const std::filesystem::path parent = first.parent_path();
  const bool are_of_one = group.size() > 1 && std::ranges::all_of(group, [&parent](const RecordedRun* run) {
                            const std::filesystem::path path = whole_path(run->run->paths);
                            return is_seed_folder(path) && path.parent_path() == parent;
                          });
  return are_of_one ? parent.filename().string() : (parent.filename() / first.filename()).string();
}

bool all_differ(const std::vector<std::string>& labels) {
  return std::set<std::string>(labels.begin(), labels.end()).size() == labels.size();
}

// Keys in which some group differs from the first.
std::vector<std::string> keys_that_differ(const std::vector<RunGroup>& groups) {
  std::vector<std::string> keys;
  for (const auto& setting : groups.front().front()->settings) {
    const bool differs = std::ranges::any_of(groups, [&setting](const RunGroup& group) {
      const auto found = group.front()->settings.find(setting.first);
      return found == group.front()->settings.end() || found->second != setting.second;
    });
    if (differs) keys.push_back(setting.first);
  }
  return keys;
}

// By the settings in which the groups differ; empty where these are none or too many to be read.
std::vector<std::string> labels_by_settings(const std::vector<RunGroup>& groups) {
  constexpr std::size_t kMostSettings = 2;
  const std::vector<std::string> keys = keys_that_differ(groups);
  const bool by_algorithm = std::ranges::find(keys, "algo") != keys.end();
  if (keys.empty() || (keys.size() > kMostSettings && !by_algorithm)) return {};
  std::vector<std::string> labels;
  for (const RunGroup& group : groups) {
    const RecordedRun& first = *group.front();
    labels.push_back(by_algorithm ? first.options.algo : joined(keys, [&first](const std::string& key) {
      const auto found = first.settings.find(key);
      return concat(key, " ", found == first.settings.end() ? "-" : found->second);
    }));
  }
  return labels;
}

}  // namespace

RecordedRun recorded_of(const PlottedRun& run) {
  RecordedRun its{&run, read_recorded(run.paths.config())};
  const OptionTable table = option_table(its.options);
  for (const auto& option : table.options()) {
    const bool counts = option->lifetime() == Lifetime::kRun || option->lifetime() == Lifetime::kStage;
    if (counts && option->key() != "seed") its.settings[option->key()] = option->text();
  }
  return its;
}

std::vector<RunGroup> groups_of(const std::vector<const RecordedRun*>& runs) {
  std::vector<RunGroup> groups;
  for (const RecordedRun* run : runs) {
    const auto fits = [run](const RunGroup& group) {
      return group.front()->settings == run->settings && std::ranges::none_of(group, [run](const RecordedRun* one) {
               return one->options.seed == run->options.seed;
             });
    };
    const auto found = std::ranges::find_if(groups, fits);
    found != groups.end() ? found->push_back(run) : groups.push_back({run});
  }
  return groups;
}

// From the most telling answer to the least.
std::vector<std::string> labels_of(const std::vector<RunGroup>& groups) {
  std::vector<std::string> labels = labels_by_settings(groups);
  if (!labels.empty() && all_differ(labels)) return labels;
  labels.clear();
  for (const RunGroup& group : groups) labels.push_back(name_of(group));
  if (all_differ(labels)) return labels;
  for (std::size_t i = 0; i < groups.size(); ++i) labels[i] = groups[i].front()->run->paths.folder.string();
  return labels;
}

}  // namespace tandem::app
