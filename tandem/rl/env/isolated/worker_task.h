// rl/env/isolated/worker_task.h: what a worker process is to make, as the JSON object that kBegin brings:
//
//   {"env": "Hover-v0", "options": {"gravity": "5"}, "plugins": ["/home/me/libhover.so"], "environments": 8,
//    "restarts": 3, "wrappers": ["frame_skip=4"]}
//
// Wrappers are put around the environments by the worker, so that what they save the training need not travel: the
// frames that are skipped, the pixels of a larger picture.
// Where the worker has a part of a group, "first" and "whole" say which: messages name environments by the group's
// numbers. `restarts` is how many environments may be made anew in the whole run; the worker asks before each (kAsks).
// Without it a failure is an answer.
//
// Plain values. Threads: all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/rl/env/env_options.h"

namespace tandem::rl {

struct WorkerTask {
  std::string env = {};
  EnvOptionTexts options = {};
  /// As EnvRegistry::set_wrappers() takes them.
  std::vector<std::string> wrappers = {};
  /// Absolute, since a worker may be started when this process has another folder.
  std::vector<std::filesystem::path> plugins = {};
  int environments = 0;
  /// Of a worker that has a part of a group: the number of its first environment in the group, and of how many.
  struct PartOfGroup {
    int first = 0, whole = 0;
    friend bool operator==(const PartOfGroup&, const PartOfGroup&) = default;
  };
  std::optional<PartOfGroup> part = {};
  std::optional<std::int64_t> restarts = {};
  friend bool operator==(const WorkerTask&, const WorkerTask&) = default;
};

[[nodiscard]] std::string json_of(const WorkerTask& task);
/// Throws JsonError for a text that is no task.
[[nodiscard]] WorkerTask read_task(std::string_view json);

}  // namespace tandem::rl
