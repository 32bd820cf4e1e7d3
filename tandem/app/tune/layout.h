// app/tune/layout.h: the layouts of a run that `tandem tune` measures, and what each does to what is learned.
//
// Threads: free functions on values.
//
// Layouts are made before anything is measured.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/configuration.h"

namespace tandem::app {

[[nodiscard]] const char* name_of(Learning learning);  // as the table has it

/// One option as a layout has it and the given configuration has not. Both are texts of the option table: "devices" and
/// "cpu:2".
struct LayoutValue {
  std::string key, text;
};

/// Empty: the given one. `learning` is the strongest effect that any of its values has.
struct Layout {
  std::vector<LayoutValue> values = {};
  Learning learning = Learning::kSameBits;
};
/// "devices cpu:2, shards 4", or "as given".
[[nodiscard]] std::string describe(const Layout& layout);

/// `given` first, then every combination of the values of `vary`, words of its algorithm's knobs, that has a shard for
/// each replica; whether its counts fit each other is configure()'s to say. `vary` empty: all that apply and are not
/// kOther. Throws ConfigError when one
/// of `vary` does not apply, or nothing is left to vary, saying what would work.
[[nodiscard]] std::vector<Layout> layouts_of(const TrainOptions& given, const std::vector<std::string>& vary,
                                             const Machine& machine);

/// The sources of `given`, with the layout's values over them as if they were flags. What they contradict is left out,
/// and the shards stay those of `given` unless the layout says otherwise.
[[nodiscard]] ConfigSources with_layout(ConfigSources sources, const Layout& layout, const TrainOptions& given);

}  // namespace tandem::app
