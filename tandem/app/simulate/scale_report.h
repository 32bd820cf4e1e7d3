// app/simulate/scale_report.h: what a simulation found, as text, as JSON and as a picture.
//
// Threads: free functions on values.
//
// Nothing here measures: the functions only put figures into words and curves. The text has the modelled parts of an
// update besides, by number of ranks.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/plot/chart.h"
#include "tandem/app/simulate/scale_model.h"

namespace tandem::app {

/// Efficiency: samples a second of N ranks over N times those of one rank that waits for all, the first of `measured`.
/// Modelled points refer to the first of `modelled` instead.
struct ScaleFindings {
  ScaleOptions options;
  std::vector<ScalePoint> measured, modelled;
};

[[nodiscard]] std::string to_text(const ScaleFindings& findings);
[[nodiscard]] std::string to_json(const ScaleFindings& findings);
[[nodiscard]] Chart chart_of(const ScaleFindings& findings);

}  // namespace tandem::app
