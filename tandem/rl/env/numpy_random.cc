#include "tandem/rl/env/numpy_random.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

// The constants below are NumPy's; each function follows one of numpy/random: SeedSequence (bit_generator.pyx), PCG64
// (pcg64.h) and the bounded integers of Generator (distributions.c).
namespace tandem::rl {
namespace {

// SeedSequence hashes the seed's 32-bit words into a pool of four, mixes every word into every other, and hashes the
// pool out again. The multiplier of each hash is a running product, so the order of the calls is part of the algorithm.
struct Hash {
  std::uint32_t constant;
  const std::uint32_t multiplier;

  std::uint32_t operator()(std::uint32_t value) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ (value >> 16);
  }
};

// SeedSequence's mix() of two words of the pool.
std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t result = 0xca01f9dd * x - 0x4973f715 * y;
  return result ^ (result >> 16);
}

// A number in [0, limit), each equally likely, by Lemire's method: the high half of bits x limit, in a Product of twice
// the width of a Word. Products whose low half falls short of the threshold are redrawn, so the number of draws varies.
template <typename Product, typename Word, typename Next>
Word below(Word limit, const Next& next) {
  Product product = Product{next()} * limit;
  if (static_cast<Word>(product) < limit) {
    const Word threshold = (Word{0} - limit) % limit;
    while (static_cast<Word>(product) < threshold) product = Product{next()} * limit;
  }
  return static_cast<Word>(product >> std::numeric_limits<Word>::digits);
}

std::array<std::uint32_t, 4> entropy_pool(std::uint64_t seed) {
  const std::array<std::uint32_t, 4> words = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  std::array<std::uint32_t, 4> pool{};
  Hash hash{0x43b0d7e5, 0x931e8875};
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hash(words[i]);
  for (std::size_t from = 0; from < pool.size(); ++from) {
    for (std::size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mix(pool[to], hash(pool[from]));
    }
  }
  return pool;
}

// The tables of NumPy's normal numbers. Layer i reaches from 0 to x[i]; the layers lie on each other from the widest,
// x[255], where the tail begins, up to the peak.
struct Ziggurat {
  static constexpr double kTail = 3.6541528853610088;
  // The area of each layer, in the last bits that NumPy has.
  static constexpr double kArea = 0x1.43016a5a4372ep-8;

  std::array<double, 256> width{};          // of a place, which is a 2^52-th of the layer
  std::array<double, 256> bell{};           // exp(-x^2 / 2)
  std::array<std::uint64_t, 256> inside{};  // places below this lie under the bell

  Ziggurat() {
    constexpr double kPlaces = 0x1.0p52;
    // As a rectangle, the lowest layer would be this wide: it holds the tail as well.
    const double lowest = kArea / std::exp(-0.5 * kTail * kTail);
    width[0] = lowest / kPlaces;
    inside[0] = static_cast<std::uint64_t>(kTail / lowest * kPlaces);
    bell[0] = 1;
    double x = kTail;
    for (std::size_t layer = 255; layer > 0; --layer) {
      // The logarithm that made NumPy's tables rounded this one differently, and all layers above follow from it.
      if (layer == 37) x = std::nextafter(std::nextafter(x, 0.0), 0.0);
      width[layer] = x / kPlaces;
      bell[layer] = std::exp(-0.5 * x * x);
      const double above = layer == 1 ? 0 : std::sqrt(-2 * std::log(kArea / x + bell[layer]));
      inside[layer] = static_cast<std::uint64_t>(above / x * kPlaces);
      x = above;
    }
  }
};

}  // namespace

std::array<std::uint64_t, 4> numpy_seed_words(std::uint64_t seed) {
  const std::array<std::uint32_t, 4> pool = entropy_pool(seed);
  Hash hash{0x8b51f9dd, 0x58f38ded};
  std::array<std::uint64_t, 4> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t low = hash(pool[(2 * i) % pool.size()]);
    const std::uint64_t high = hash(pool[(2 * i + 1) % pool.size()]);
    words[i] = high << 32 | low;
  }
  return words;
}

// PCG64's seeding: the stream's increment must be odd; a step before and one after adding the start spread the seed's
// bits.
NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const std::array<std::uint64_t, 4> words = numpy_seed_words(seed);
  const Uint128 start = Uint128{words[0]} << 64 | words[1];
  const Uint128 stream = Uint128{words[2]} << 64 | words[3];
  increment_ = stream << 1 | 1;
  next_uint64();
  state_ += start;
  next_uint64();
}

// A linear congruential step of 128 bits; the output is the two halves, exclusive-ored and rotated by the top six bits.
std::uint64_t NumpyGenerator::next_uint64() {
  constexpr Uint128 kMultiplier = Uint128{0x2360ed051fc65da4} << 64 | 0x4385df649fccf645;
  state_ = state_ * kMultiplier + increment_;
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

std::uint32_t NumpyGenerator::next_uint32() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const std::uint64_t bits = next_uint64();
  spare_ = static_cast<std::uint32_t>(bits >> 32);
  has_spare_ = true;
  return static_cast<std::uint32_t>(bits);
}

// As NumPy does, the width of the range decides how many random bits a try takes, and a range of one takes none. The
// difference is computed in unsigned numbers, which cannot overflow.
std::int64_t NumpyGenerator::integers(std::int64_t low, std::int64_t high) {
  if (low >= high) throw EnvError(concat("integers(", low, ", ", high, "): the range is empty, low must be < high"));
  const std::uint64_t largest = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) - 1;
  std::uint64_t offset = 0;
  if (largest > 0 && largest < 0xffffffff) {
    offset = below<std::uint64_t>(static_cast<std::uint32_t>(largest + 1), [this] { return next_uint32(); });
  } else if (largest == 0xffffffff) {
    offset = next_uint32();
  } else if (largest > 0) {
    offset = below<Uint128>(largest + 1, [this] { return next_uint64(); });
  }
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

std::vector<std::int64_t> NumpyGenerator::permutation(std::int64_t count) {
  if (count < 0) throw EnvError(concat("permutation(", count, "): the count must be at least 0"));
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  // Shuffled from the end. NumPy draws each place by rejection, from as many bits as the largest one has.
  for (std::uint64_t last = order.size(); last-- > 1;) {
    const std::uint64_t mask = std::bit_ceil(last + 1) - 1;
    std::uint64_t place = 0;
    do {
      place = mask & (last <= 0xffffffff ? next_uint32() : next_uint64());
    } while (place > last);
    std::swap(order[last], order[place]);
  }
  return order;
}

// Half of the bell is covered by 256 layers of equal area. A draw takes a layer and a place in it: nearly always the
// place lies within the part of the layer that is all under the bell, and is the result.
double NumpyGenerator::standard_normal() {
  static const Ziggurat ziggurat;
  while (true) {
    const std::uint64_t bits = next_uint64();
    const std::size_t layer = bits & 0xff;
    const std::uint64_t place = bits >> 9 & 0xfffffffffffff;
    const double size = static_cast<double>(place) * ziggurat.width[layer];
    const double drawn = (bits >> 8 & 1) != 0 ? -size : size;
    if (place < ziggurat.inside[layer]) return drawn;
    if (layer == 0) return normal_tail(place);
    const double height = (ziggurat.bell[layer - 1] - ziggurat.bell[layer]) * random() + ziggurat.bell[layer];
    if (height < std::exp(-0.5 * drawn * drawn)) return drawn;
  }
}

double NumpyGenerator::normal_tail(std::uint64_t place) {
  while (true) {
    const double beyond = -1 / Ziggurat::kTail * std::log1p(-random());
    const double height = -std::log1p(-random());
    if (height + height > beyond * beyond) {
      const double drawn = Ziggurat::kTail + beyond;
      return (place >> 8 & 1) != 0 ? -drawn : drawn;
    }
  }
}

NumpyGenerator::State NumpyGenerator::state() const {
  return {static_cast<std::uint64_t>(state_ >> 64),
          static_cast<std::uint64_t>(state_),
          static_cast<std::uint64_t>(increment_ >> 64),
          static_cast<std::uint64_t>(increment_),
          spare_,
          has_spare_ ? 1u : 0u};
}

void NumpyGenerator::set_state(const State& state) {
  state_ = Uint128{state.state_high} << 64 | state.state_low;
  increment_ = Uint128{state.increment_high} << 64 | state.increment_low;
  spare_ = state.spare;
  has_spare_ = state.has_spare != 0;
}

}  // namespace tandem::rl
