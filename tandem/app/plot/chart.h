// app/plot/chart.h: a picture of curves, as PNG or SVG.
//
// Threads: free functions on values. Errors: ConfigError for a file name of another kind, CheckpointError when the file
// cannot be written.
//
// Drawing needs no display: pictures are made in memory and then written at once. The y axis is always linear.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/app/plot/curve.h"

namespace tandem::app {

enum class Scale {
  kLinear,  // from zero
  kLog2,    // of values from 1 on: twice as many is as far everywhere
};

/// Curves are drawn in their order, later ones over earlier ones; a legend appears from two curves on.
struct Chart {
  std::string title, subtitle;
  std::string x_label, y_label;
  std::optional<double> threshold = {};  // a line across, at which the task counts as solved
  std::vector<Curve> curves = {};
  Scale x_scale = Scale::kLinear;
};

/// The size of a picture, in points of 1/72 inch; PNG has two pixels a point.
struct ChartSize {
  double width = 840, height = 470;
};

/// Writes the picture to `file`, whole or not at all; its name ends in .png or .svg. The format follows the name's
/// ending. Throws RunError when cairo fails.
void write_chart(const Chart& chart, const std::filesystem::path& file, const ChartSize& size = {});

}  // namespace tandem::app
