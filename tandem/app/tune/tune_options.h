// app/tune/tune_options.h: what `tandem tune` is asked to try.
//
// Plain values.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tandem::app {

struct TuneOptions {
  std::vector<std::string> vary = {};  // words of knobs (knob.h); empty: all that leave what is learned as it is
  int rounds = 5;                      // measured runs of a layout, after which its median counts
  double seconds = 1;                  // that a run of the given layout takes, about
  std::filesystem::path output = "tuned.yaml";
};

}  // namespace tandem::app
