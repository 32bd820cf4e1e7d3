// app/tune/layout.h: the layouts of a run that `tandem tune` measures, and what each does to what is learned.
//
// Threads: free functions on values.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/tune/tune_options.h"

namespace tandem::app {

/// What becomes of what is learned, against the given layout. In the order in which they prevail.
enum class Learning {
  kSameBits,          // every number is the same
  kSameButForTiming,  // the same computation; but such runs have other numbers each time in any layout
  kOther,             // other batches, other random streams: another run, which may learn faster or more slowly
};
[[nodiscard]] const char* name_of(Learning learning);  // as the table has it

/// One option as a layout has it and the given configuration has not.
struct LayoutValue {
  std::string key, text;
};

/// Empty: the given one.
struct Layout {
  std::vector<LayoutValue> values = {};
  Learning learning = Learning::kSameBits;
};
/// "devices cpu:2, shards 4", or "as given".
[[nodiscard]] std::string describe(const Layout& layout);

struct DeviceChoice {
  std::string text;
  std::int64_t replicas = 1;
};
/// What a layout may use.
struct Machine {
  std::int64_t cores = 1;
  std::vector<DeviceChoice> devices = {};  // as the run may have them; the given ones are among them
};

/// Whether `given` has something of the kind: IMPALA has rollout workers, PPO has not.
[[nodiscard]] bool applies(Vary what, const TrainOptions& given);
/// What varying it does to a run of `given`, to which it applies.
[[nodiscard]] Learning learning_of(Vary what, const TrainOptions& given);

/// `given` first, then every combination of the values of `vary` that has a shard for each replica; whether its counts
/// fit each other is configure()'s to say. `vary` empty: all that apply and are not kOther. Throws ConfigError when one
/// of `vary` does not apply, or nothing is left to vary, saying what would work.
[[nodiscard]] std::vector<Layout> layouts_of(const TrainOptions& given, const std::vector<Vary>& vary,
                                             const Machine& machine);

/// The sources of `given`, with the layout's values over them as if they were flags. What they contradict is left out,
/// and the shards stay those of `given` unless the layout says otherwise.
[[nodiscard]] ConfigSources with_layout(ConfigSources sources, const Layout& layout, const TrainOptions& given);

}  // namespace tandem::app
