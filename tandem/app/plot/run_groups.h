// app/plot/run_groups.h: which runs of a picture are one curve, and what the legend calls it.
//
// Threads: free functions. Errors: those of reading config.yaml.
//
// Runs that differ in their seed alone are a group. What the legend says must tell the groups apart: the algorithm, or
// the settings in which they differ, or else the names of folders.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tandem/app/config/train_options.h"
#include "tandem/app/plot/run_picture.h"

namespace tandem::app {

/// A run that is drawn, with what it recorded. Refers to the run.
struct RecordedRun {
  const PlottedRun* run = nullptr;
  TrainOptions options = {};
  std::map<std::string, std::string> settings = {};  // those that make it another run, but for the seed
};
[[nodiscard]] RecordedRun recorded_of(const PlottedRun& run);

/// Runs that differ in their seeds alone; not empty. Refers to them.
using RunGroup = std::vector<const RecordedRun*>;
/// In the order in which their first runs come. Runs of one seed are in groups of their own, since one of them may be
/// another's resume or copy.
[[nodiscard]] std::vector<RunGroup> groups_of(const std::vector<const RecordedRun*>& runs);

/// What the legend calls each group, all of them different unless two have the very same path. In this order: the
/// algorithm, where groups differ in it; the settings in which they differ, where these are one or two; the folders'
/// names. A folder of `--seeds` gives its name to the group of its runs. `groups`: at least one.
[[nodiscard]] std::vector<std::string> labels_of(const std::vector<RunGroup>& groups);

}  // namespace tandem::app
