// rl/env/isolated/region_layout.h: the memory that a training shares with one worker process, byte by byte, and how the
// two wake each other. It is all that a worker must know, in whatever language it is written; decision 57 says why.
//
// A worker is started with two descriptors: 3, a connected Unix stream socket, and 4, the memory, a memfd to be mapped
// as a whole. Numbers are little-endian. The memory begins with a RegionHeader, whose fields have the offsets that are
// behind them below. Behind it, at byte 384, lies a LeafEntry for each leaf of the observation. Then come the arrays,
// each at the offset that the header or the entry says; row e belongs to environment e:
//
//   actions              [environments, action_elements]   int64, or float32 for a Box
//   reward               [environments]                    float64
//   terminated, truncated[environments]                    uint8, 0 or 1
//   mask                 [environments, mask_elements]     uint8, 0 or 1
//   metric_values        [environments, metrics]           float64; a NaN: not known
//   seeds, failures, start_seeds [environments]            uint64
//   observation, final_observation of each leaf [environments, row_bytes]; as LeafEntry::type
//   window               window_bytes bytes, for whatever has no fixed size
//
// The training asks and the worker answers, one request at a time:
//
//   1. The training writes its arrays, `command` and `argument`, then adds 1 to `request`, which begins at 0. If
//      `worker_sleeps` is not 0, it sends one byte through the socket.
//   2. The worker does what is asked, writes its arrays, `outcome` and `value`, and sets `done` to the number of the
//      request. If `learner_sleeps` is not 0, it sends one byte.
//
// Who waits may sleep in a read of the socket: it sets its word, looks once more whether the number has changed, reads
// a byte, and clears the word. A worker that does not spin may leave its word at 1 for ever, and send a byte for every
// answer; surplus bytes, and a full socket, do no harm. A read that finds the end of the socket means that the other
// side is gone, and the worker ends itself then. Within kPatienceForTheEnd it may destroy its environments.
//
// What the worker writes is never believed: all lengths, values and offsets are compared with what the training knows
// itself (worker_link.h).
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// The descriptors of a worker.
inline constexpr int kWorkerSocket = 3, kWorkerMemory = 4;
/// Behind the end of its socket a worker is given so long to end by itself.
inline constexpr std::chrono::seconds kPatienceForTheEnd{2};

/// What a worker is asked. A worker that does not know a command answers kFailed.
enum class WorkerCommand : std::uint32_t {
  /// The input (kGive) is the task, an object of JSON (worker_task.h). The worker makes its environments. `value`: the
  /// sum of 1 where their states can be saved, 2 where it knows kStepRows, 4 where they draw themselves (kRender), and
  /// 8
  /// where it knows kRewardGoals.
  kBegin = 1,
  /// Starts an episode in each environment, with the seed in `start_seeds`; writes observation and mask. `seeds` and
  /// `failures` say where this seed comes from, and are kept for kSave. Here and in kStep a worker that has made
  /// environments anew (kAsks) adds that to their `failures`.
  kReset = 2,
  /// Steps each environment by its row of `actions`, with a reset in the same step where an episode ends; writes all
  /// arrays, of final_observation and metric_values the rows whose episode ended.
  kStep = 3,
  /// `progress` is the share of the run's steps that are made, for episodes that begin from now on.
  kProgress = 4,
  /// The output (kTake) is the state of all environments. `value`: its length in bytes.
  kSave = 5,
  /// The input is such a state. Writes observation, mask, seeds and failures.
  kLoad = 6,
  /// The first `argument` bytes of the window are the next piece of the input of a later command.
  kGive = 7,
  /// Writes the next piece of the output to the window: window_bytes bytes, or all that is left. `value`: its length.
  kTake = 8,
  /// Answers kAsks: `argument` is 1 for yes, and 0 for no.
  kAnswer = 9,
  /// In the place of kBegin, for environments that only a worker knows: the input is the task, and the output their
  /// spec as JSON (python/python_spec.h). `value`: its length in bytes. The memory has no arrays but the window then
  /// (bare_layout()).
  kDescribe = 10,
  /// As kStep, of some environments: byte e of the window is a RowStep (steps_by_row.h), 0 for one that rests, 1 for a
  /// step, 2 for a step that ends the episode, as truncated. What belongs to one that rests is not written. Asked only
  /// of a worker that said to kBegin that it knows it.
  kStepRows = 11,
  /// The output is a picture of environment `argument`: its height and width, 32 bits each, and the pixels, a byte each
  /// for red, green and blue, the upper row first. `value`: its length in bytes. `argument` with kEndOfEpisode added:
  /// as it was when its last episode ended, which is kept of environments that have been asked for a picture before.
  kRender = 12,
  /// The input is `argument` rows of the leaf achieved_goal, then as many of desired_goal, then a byte for each row, 1
  /// where its step has terminated the episode. The output is what these goals are worth (goal_rewards.h): the rewards,
  /// float64, and the bytes, changed where the end depends on the goal. `value`: its length in bytes.
  kRewardGoals = 13,
};
inline constexpr std::uint64_t kEndOfEpisode = std::uint64_t{1} << 32;

/// How the worker answers. With all but kDone, the first `value` bytes of the window are a text.
enum class WorkerOutcome : std::uint32_t {
  kDone = 0,
  /// An environment failed, and what is asked was not done. The text says where.
  kFailed = 1,
  /// To kBegin and kDescribe alone: the task cannot be done, since there is no such environment, or a plugin is
  /// missing.
  kRefused = 2,
  /// To kLoad alone: a state that does not fit.
  kUnreadable = 3,
  /// An environment failed, and the worker would make it anew: may it? The training answers by kAnswer, and the worker
  /// then goes on with what was asked before, within the time that it has for it. After a no it asks no more.
  kAsks = 4,
};

/// ElementType in the memory: 0 float32, 1 uint8, 2 int64, 3 float64.
[[nodiscard]] constexpr std::uint32_t number_of(ElementType type) { return static_cast<std::uint32_t>(type); }
static_assert(number_of(ElementType::kFloat32) == 0 && number_of(ElementType::kUInt8) == 1 &&
              number_of(ElementType::kInt64) == 2 && number_of(ElementType::kFloat64) == 3);

/// What does not change while the worker lives. The training writes it; a worker compares it with what it has itself.
struct RegionTable {
  std::uint64_t magic = 0x53564e454d444e54;                                           // 0: "TNDMENVS"
  std::uint32_t version = 1, environments = 0;                                        // 8, 12
  std::uint64_t bytes = 0;                                                            // 16: of the whole memory
  std::uint32_t leaves = 0, action_type = 0, action_elements = 0, mask_elements = 0;  // 24, 28, 32, 36
  std::uint32_t metrics = 0, spin_ns = 0;                                             // 40, 44: to spin before sleeping
  std::uint64_t actions = 0, reward = 0, terminated = 0, truncated = 0;               // 48, 56, 64, 72
  std::uint64_t mask = 0, metric_values = 0, seeds = 0, failures = 0, start_seeds = 0;  // 80, 88, 96, 104, 112
  std::uint64_t window = 0;                                                             // 120; of kWindowBytes bytes
  friend bool operator==(const RegionTable&, const RegionTable&) = default;
};
inline constexpr std::size_t kWindowBytes = std::size_t{256} << 10;

struct RegionHeader {
  RegionTable table;  // 0
  // Written by the training.
  alignas(64) std::atomic<std::uint32_t> request;  // 128
  std::uint32_t command;                           // 132
  std::uint64_t argument;                          // 136
  double progress;                                 // 144
  // Written by the worker.
  alignas(64) std::atomic<std::uint32_t> done;  // 192
  std::uint32_t outcome;                        // 196
  std::uint64_t value;                          // 200
  // Each is written by who sleeps.
  alignas(64) std::atomic<std::uint32_t> learner_sleeps;  // 256
  alignas(64) std::atomic<std::uint32_t> worker_sleeps;   // 320
};
static_assert(sizeof(RegionTable) == 128 && sizeof(RegionHeader) == 384);
static_assert(offsetof(RegionTable, bytes) == 16 && offsetof(RegionTable, metrics) == 40 &&
              offsetof(RegionTable, actions) == 48 && offsetof(RegionTable, window) == 120);
static_assert(offsetof(RegionHeader, command) == 132 && offsetof(RegionHeader, progress) == 144 &&
              offsetof(RegionHeader, outcome) == 196 && offsetof(RegionHeader, worker_sleeps) == 320);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

struct LeafEntry {
  std::uint32_t type = 0, reserved = 0;                  // 0, 4
  std::uint64_t row_bytes = 0;                           // 8
  std::uint64_t observation = 0, final_observation = 0;  // 16, 24
  friend bool operator==(const LeafEntry&, const LeafEntry&) = default;
};
static_assert(sizeof(LeafEntry) == 32);

/// Where everything lies in the memory of `environments` environments with such a spec. A value that each side
/// calculates for itself: neither uses an offset that the other could have changed.
struct RegionLayout {
  RegionTable table;
  std::vector<LeafEntry> leaves;
};
/// Throws ConfigError for arrays that are larger than kMostRegionBytes together.
[[nodiscard]] RegionLayout layout_of(const Spec& spec, int environments, std::uint32_t spin_ns);
/// The memory in which a worker is asked for the spec of its environments.
[[nodiscard]] RegionLayout bare_layout();
inline constexpr std::uint64_t kMostRegionBytes = std::uint64_t{64} << 30;

/// The largest state that a worker may hand over; more is a fault of the worker.
inline constexpr std::uint64_t kMostStateBytes = std::uint64_t{4} << 30;
/// The longest text of an answer that is read; what is behind it is left out.
inline constexpr std::size_t kMostAnswerText = 4096;

}  // namespace tandem::rl
