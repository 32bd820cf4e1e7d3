// rl/replay/replay_options.h: how many transitions a replay part holds, what it keeps of each, and how it draws them.
//
//   const ReplayOptions options{.rows = 1'000'000, .n_step = 3, .priorities = PriorityOptions{}};
//
// A part's memory follows from these options and from the spec alone (bytes_of_part() tells it without a part).
// Threads: plain values. Errors: option_faults() lists what is wrong, and ReplayPart's constructor throws ConfigError
// with the list.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/env/wrappers/env_wrapper.h"
#include "tandem/rl/replay/hindsight.h"

namespace tandem::rl {

/// The most frames of a stack.
inline constexpr std::int64_t kMostStackFrames = 64;

/// Element type of a stored leaf. Raw numbers are stored, and normalisers run on what was drawn. So kAsGiven keeps
/// float64 leaves as float64, which tells a clock of 1.7e9 + 0.01 t apart from the next one; kFloat32 halves them.
enum class StoredNumbers { kAsGiven, kFloat32 };

/// How one leaf of an observation is stored, and handed out again.
struct LeafStorage {
  /// kFloat32 is for float64 leaves only. sample() then writes float32.
  StoredNumbers numbers = StoredNumbers::kAsGiven;
  /// More than 1: the leaf is a stack of that many frames, oldest first, as frame_stack() makes it: equal parts of its
  /// bytes, of which each step adds one at the end. Only the newest is stored, and sample() puts stacks together
  /// again. Every observation that comes in is compared with the stack that would be rebuilt, so a leaf that is no such
  /// stack is an error at once and never a wrong picture later. The last observation of a truncated episode may be the
  /// present one again, as an environment that failed leaves it: its newest frame then comes twice.
  int frames = 1;
  /// What stands in the places of frames from before the episode; the padding that frame_stack() was given.
  StackPadding padding = StackPadding::kFirst;
};

/// Which last observations of episodes are kept. Targets need those of truncated episodes only, since a termination
/// bootstraps nothing. kAll is for algorithms that look at next observations themselves; hindsight needs it.
/// Where the last observation of a terminated episode is not kept, its row's own observation stands in its place, and
/// the row's discount is 0.
enum class KeptEnds { kTruncated, kAll };

/// Proportional prioritised replay: Schaul et al., "Prioritized experience replay" (2016). A row's chance is its
/// (priority + epsilon)^alpha; a new row gets the largest priority that any row was given so far, 1 at first.
struct PriorityOptions {
  double alpha = 0.6;     // 0 .. 1; 0 draws uniformly
  double epsilon = 1e-6;  // at least 0; with 0, rows of priority 0 are not drawn, unless all are 0
};

/// Where the rows lie. Memory is reserved by the constructor and never grows, but for segments that a snapshot still
/// holds when their place is needed (see ReplayPart::snapshot()).
struct ReplayMemory {
  /// Anonymous memory; a file without a name in the folder `path`, which is gone with the process; or the file `path`,
  /// which stays. Files are as large as they get from the beginning, so a disk that is too small is an error then.
  enum class Place { kAnonymous, kNamelessFile, kNamedFile };
  Place place = Place::kAnonymous;
  std::filesystem::path path = {};
};

struct ReplayOptions {
  /// Transitions that the part holds: a multiple of the group's environments is kept, the next one above.
  std::int64_t rows = 1'000'000;
  /// Steps of a return before it bootstraps, 1 or more, and the discount of one step, 0 .. 1.
  int n_step = 1;
  double gamma = 0.99;
  /// By leaf of the spec; empty: all as given.
  std::vector<LeafStorage> leaves = {};
  KeptEnds kept_ends = KeptEnds::kTruncated;
  /// Last observations that there is room for. 0: as many as the time limit can make within `rows`, or one for 32 rows
  /// where there is no limit. When more episodes end, the oldest steps are given up before their time: so the part then
  /// holds fewer rows, and never a truncated row without its last observation.
  std::int64_t ends = 0;
  /// None: rows are drawn uniformly.
  std::optional<PriorityOptions> priorities = {};
  /// None: goals stay as they are.
  std::optional<HindsightOptions> hindsight = {};
  ReplayMemory memory = {};
};

/// Everything that is wrong with the options for `envs` environments of this spec, one sentence each, naming the option
/// and its value; empty when they can be used.
[[nodiscard]] std::vector<std::string> option_faults(const Spec& spec, int envs, const ReplayOptions& options);

/// Memory of a part, in bytes. `arrays`: observations, actions, rewards, flags, masks and priorities of all rows that
/// it holds, each once: what no replay can do without. `whole`: with the last observations, the room of the segment
/// that is being overwritten, and the sums over priorities.
struct PartBytes {
  std::uint64_t arrays = 0, whole = 0;
};
/// Throws ConfigError with all option_faults().
[[nodiscard]] PartBytes bytes_of_part(const Spec& spec, int envs, const ReplayOptions& options);

}  // namespace tandem::rl
