// rl/env/numpy_random.h: NumPy's default generator, bit for bit: SeedSequence, PCG64 and the draws that environments
// use.
//
// The same seed gives the same start states as gymnasium's `env.reset(seed=...)`, so results can be compared.
// Sources: M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
// Generation" (2014), variant XSL RR 128/64; SeedSequence after M. O'Neill, "Developing a seed_seq Alternative" (2015);
// D. Lemire, "Fast Random Integer Generation in an Interval" (2019). Compared with numpy 2.4 in tests/parity.
//
// Threads: single-thread; a plain value, copied freely. A copy gives the same draws as the original.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace tandem::rl {

/// PCG64 with the draws of numpy.random.Generator. A standard UniformRandomBitGenerator: std::shuffle() and the
/// distributions of <random> take it, though these give other numbers with each C++ library.
class NumpyGenerator {
 public:
  using result_type = std::uint64_t;
  [[nodiscard]] static constexpr result_type min() { return 0; }
  [[nodiscard]] static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() { return next_uint64(); }

  /// The generator numpy.random.Generator(PCG64(seed)), which gymnasium makes for `reset(seed=seed)`. The seed passes
  /// through numpy_seed_words(), so seeds that are close give streams that are not.
  explicit NumpyGenerator(std::uint64_t seed = 0);

  // Each draw below names the NumPy call that gives the same numbers in the same order.

  /// 64 random bits; `bit_generator.random_raw()`.
  std::uint64_t next_uint64();
  /// 32 random bits: the low half of a 64-bit draw, then its high half. A 64-bit draw between the two leaves the high
  /// half for later, as in NumPy.
  std::uint32_t next_uint32();
  /// A double in [0, 1) with 53 random bits; `Generator.random()`.
  double random() { return static_cast<double>(next_uint64() >> 11) * 0x1.0p-53; }
  /// A double in [low, high); `Generator.uniform(low, high)`.
  double uniform(double low, double high) { return low + (high - low) * random(); }
  /// A normal number with that mean and standard deviation; `Generator.normal(mean, deviation)`, which draws from 256
  /// layers (Marsaglia and Tsang, "The Ziggurat Method for Generating Random Variables", 2000).
  double normal(double mean = 0, double deviation = 1) { return mean + deviation * standard_normal(); }
  /// The numbers 0 .. count-1 in random order; `Generator.permutation(count)`. Throws EnvError for a negative count.
  std::vector<std::int64_t> permutation(std::int64_t count);
  /// An integer in [low, high), each equally likely; `Generator.integers(low, high)`. Throws EnvError unless low <
  /// high.
  std::int64_t integers(std::int64_t low, std::int64_t high);

  /// Everything that the next draws depend on; a plain record that may be written to a checkpoint.
  struct State {
    std::uint64_t state_high = 0, state_low = 0;
    std::uint64_t increment_high = 0, increment_low = 0;
    // The high half that next_uint32() keeps for its next call, and whether there is one (0 or 1).
    std::uint32_t spare = 0;
    std::uint32_t has_spare = 0;

    bool operator==(const State&) const = default;
  };
  static_assert(sizeof(State) == 40, "written as bytes: no padding");
  /// set_state() brings back all draws that would have followed.
  [[nodiscard]] State state() const;
  void set_state(const State& state);

 private:
  __extension__ using Uint128 = unsigned __int128;

  double standard_normal();
  // A draw of the tail beyond the ziggurat's lowest layer; `place` is what chose the layer.
  double normal_tail(std::uint64_t place);

  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  std::uint32_t spare_ = 0;
  bool has_spare_ = false;
};

/// The first four 64-bit words of numpy.random.SeedSequence(seed).generate_state(4, uint64).
[[nodiscard]] std::array<std::uint64_t, 4> numpy_seed_words(std::uint64_t seed);

}  // namespace tandem::rl
