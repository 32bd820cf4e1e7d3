// app/tune/tune_report.h: what `tandem tune` found out, as a table and as JSON.
//
// Threads: free functions on values.
//
// The table is for people and may change; the keys of the JSON are for programs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/tune/measurement.h"

namespace tandem::app {

/// `chosen` is an index of `layouts`.
struct TuneFindings {
  std::string work = {};  // "ppo on CartPole-v1, 8 environments x 32 steps, 2 shards on cpu:2"
  std::int64_t cores = 1;
  std::int64_t env_steps = 0;  // of a run of the given layout, those of its first update too
  std::int64_t rounds = 5;
  std::vector<Measured> layouts = {};      // the given one first; the table leaves those out that have no run
  std::optional<std::size_t> chosen = {};  // none: it was stopped before all was measured
  std::string output = {};                 // the file that was written; empty: none
};

/// With what to do next. `program`: how to call this program.
[[nodiscard]] std::string to_text(const TuneFindings& findings, const std::string& program);
/// One line, without its end.
[[nodiscard]] std::string to_json(const TuneFindings& findings);

/// The configuration of the chosen layout as a file for `tandem train`: `yaml`, of its Configuration, with a head that
/// says how it came about. Without a choice it is the given configuration.
[[nodiscard]] std::string to_config_file(const TuneFindings& findings, const std::string& yaml);

}  // namespace tandem::app
