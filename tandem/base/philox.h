// base/philox.h: the random numbers of Tandem, by Philox4x32-10, a counter-based generator.
//
//   Philox random(derive_seed(run_seed, SeedPurpose::kShuffle, shard));
//   const std::uint64_t row = random.below(rows);
//
// Block i of stream s under seed k is a keyed bijection of (i, s). So streams never overlap and need no jump-ahead, and
// a state is a few numbers. Each stream has 2^66 words of 32 bits.
//
// Threads: single-thread. Each unit (shard, env group) has a generator of its own, so the numbers do not depend on
// which thread does the work. Equal arguments give equal numbers on every machine; normal() also depends on the log,
// sin and cos of the C library. Source: Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC
// 2011).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tandem {

/// The ten-round bijection itself: returns four random words for each (counter, key).
[[nodiscard]] std::array<std::uint32_t, 4> philox_block(std::array<std::uint32_t, 4> counter,
                                                        std::array<std::uint32_t, 2> key);

/// A stream of random numbers. Copies are independent and continue with the same numbers.
class Philox {
 public:
  static constexpr std::size_t kStateBytes = 48;

  /// Starts at the first word of stream `stream` under the key `seed`.
  explicit Philox(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  /// The next random bits.
  [[nodiscard]] std::uint32_t next_u32() {
    if (used_ == block_.size()) refill();
    return block_[used_++];
  }
  /// The word that comes first is the low half.
  [[nodiscard]] std::uint64_t next_u64() {
    const std::uint64_t low = next_u32();
    return std::uint64_t{next_u32()} << 32 | low;
  }
  /// A number in [0, 1), a multiple of 2^-53.
  [[nodiscard]] double uniform_double() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }
  /// A number of 0 .. bound-1, all exactly equally likely (Lemire: "Fast random integer generation in an interval",
  /// 2019). `bound` is at least 1.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
  /// A standard normal number (Box and Muller). They come in pairs: every second call returns the second of a pair.
  [[nodiscard]] double normal();

  /// The state that decides the numbers to come, little-endian.
  [[nodiscard]] std::array<std::byte, kStateBytes> save() const;
  /// Goes back to a saved state. Throws CheckpointError for bytes that no save() wrote, and changes nothing then.
  void load(std::span<const std::byte> state);

 private:
  // Computes the next block of four words, and goes back to its first word.
  void refill();

  std::uint64_t seed_, stream_;
  std::uint64_t next_block_ = 0;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;  // how many words of block_ were handed out
  // The second normal number of a pair waits in spare_ until it is asked for; it is part of the saved state.
  bool has_spare_ = false;
  double spare_ = 0;
};

/// Puts `items` into a random order, each order equally likely (Fisher and Yates). In place, without allocation; the
/// result depends only on the state of `random`.
template <typename Item>
void shuffle(std::span<Item> items, Philox& random) {
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random.below(left)]);
}

/// The purpose of a derived seed. The values are part of what a run means: never renumber them.
enum class SeedPurpose : std::uint32_t {
  kParameters = 1,  // initial parameters of a model
  kShard = 2,       // random operations in the loss of a shard
  kShuffle = 3,     // order of a shard's rows
  kEnvGroup = 4,    // seeds of the episodes of an env group
  kAction = 5,      // actions sampled for an env group
  kEvaluation = 6,  // episodes of `tandem eval`
  kDataset = 7,     // order and augmentation of a dataset
  kPolicy = 8,      // the seed that each of several policies of a run derives its own from
  kEnvWrapper = 9,  // what wrappers draw around an environment, from its seed
  kReplay = 10,     // which rows are drawn from a shard's replay part
  kUser = 1000,     // this and above: for programs that use the library
};

/// An independent 64-bit seed for each (run seed, purpose, index).
[[nodiscard]] std::uint64_t derive_seed(std::uint64_t run_seed, SeedPurpose purpose, std::uint64_t index);

}  // namespace tandem
