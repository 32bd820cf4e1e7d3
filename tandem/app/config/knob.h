// app/config/knob.h: what `tandem tune` may vary of a run, and what that does to learning.
//
// Plain values.
//
// An algorithm lists its knobs (Algorithm::knobs()); app/tune/layout.h makes layouts of their combinations.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::app {

/// The effect of another layout on learning. When several options differ, the later value prevails.
/// The order is from the strongest promise to none.
enum class Learning {
  kSameBits,          // every number is the same
  kSameButForTiming,  // the same computation; but such runs have other numbers each time in any layout
  kOther,             // other batches, other random streams: another run, which may learn faster or more slowly
};

/// One value of `devices`, and how many replicas it makes.
struct DeviceChoice {
  std::string text;
  std::int64_t replicas = 1;
};
/// The hardware that a layout may use.
/// Default: one core and no devices, with which only the words and their help are asked for.
struct Machine {
  std::int64_t cores = 1;
  std::vector<DeviceChoice> devices = {};  // as the run may have them; the given ones are among them
};

/// An option that decides how the work of a run is laid out.
struct Knob {
  std::string word;  // for --vary
  std::string help;  // behind the word in `tandem tune --help`
  std::string key;   // of the option
  /// As a flag or a CONFIG would give them.
  std::vector<std::string> texts = {};  // values to try besides the given one
  Learning learning = Learning::kOther;
  bool applies = true;  // false: the given run has nothing of the kind
};

}  // namespace tandem::app
