#include "tandem/rl/env/numpy_random.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include "tandem/base/error.h"

// Expected values were printed by numpy 2.4.6; tests/parity/env_parity.py compares many more with the package itself.
namespace tandem::rl {
namespace {

struct Seeded {
  std::uint64_t seed;
  std::array<std::uint64_t, 4> words;
  std::array<std::uint64_t, 2> draws;
};

TEST(NumpyGeneratorTest, SeedsAndRawDrawsAreThoseOfNumpy) {
  const std::vector<Seeded> expected = {
      {0,
       {0xdb2cd7e7b0f478be, 0xabf4641a2c71ba49, 0x20c6ed6d9d7b8d41, 0x2c4099de223c39d4},
       {0xa30febcfd9c2825f, 0x4510bdf882d9d721}},
      {42,
       {0x9f1e2e6dcd540ab7, 0xd57873dc79fb94b6, 0x7d282a1b64d420b7, 0x336579714692d5ff},
       {0xc621fbcd16d92688, 0x705a5661a791ffc1}},
      {1ull << 32,
       {0x50ff846cec53f444, 0x7a4918dbe8278562, 0x3bff9f6c362e2b19, 0xbdb177539a0654e3},
       {0xe3c5ebe285ac1625, 0x8ea09968fe31dbcc}},
      {~0ull,
       {0xaebca151928cad0d, 0x119c30448638dc7a, 0x1bbb155659e642a7, 0xa76b11e3e8c4a8f6},
       {0xae163a7a8c47568f, 0xd86659f5f3382359}},
  };
  for (const Seeded& one : expected) {
    EXPECT_EQ(numpy_seed_words(one.seed), one.words) << "seed " << one.seed;
    NumpyGenerator random(one.seed);
    EXPECT_EQ(random.next_uint64(), one.draws[0]) << "seed " << one.seed;
    EXPECT_EQ(random.next_uint64(), one.draws[1]) << "seed " << one.seed;
  }
}

// One generator, drawn from in the order in which numpy printed: narrow ranges keep half a draw for the next one.
TEST(NumpyGeneratorTest, IntegersAndRealsAreThoseOfNumpyInAnyMixture) {
  NumpyGenerator random(7);
  const auto draws = [&](int count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::int64_t& value : values) value = random.integers(low, high);
    return values;
  };
  using Values = std::vector<std::int64_t>;
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  const std::int64_t one = 1;
  EXPECT_EQ(draws(8, 0, 10), (Values{9, 6, 6, 8, 5, 7, 8, 2}));
  EXPECT_EQ(draws(3, -5, one << 31), (Values{119253149, 1875941738, 1959843383}));
  EXPECT_EQ(draws(3, 0, one << 32), (Values{22614310, 2146567901, 3527149199}));
  EXPECT_EQ(draws(3, -(one << 62), (one << 62) + 5),
            (Values{2739981862156045490, -295747859301655406, -1816705206641889755}));
  EXPECT_EQ(draws(1, 3, 4), (Values{3}));
  EXPECT_EQ(draws(6, 0, 3 * (one << 30)),
            (Values{1100381667, 896871673, 820992407, 3190494253, 1433691132, 1540225366}));
  EXPECT_EQ(draws(4, kLowest, one << 62),
            (Values{-1565704037459220887, 4549432178509896336, 1743151633678879242, -615486276745567287}));
  EXPECT_EQ(random.uniform(-0.05, 0.05), 0x1.908e600ab0f7ep-5);
  EXPECT_EQ(random.uniform(-0.05, 0.05), -0x1.d2702fc36a874p-6);
  EXPECT_EQ(random.uniform(-0.05, 0.05), -0x1.165ab386e54e0p-5);
  EXPECT_EQ(random.random(), 0x1.399eca7fb7039p-1);
}

// A million draws come from each of the 256 layers, and from the tail.
TEST(NumpyGeneratorTest, NormalNumbersAreThoseOfNumpy) {
  NumpyGenerator random(7);
  EXPECT_EQ(random.normal(), 0x1.427a31c1ffc58p-10);
  EXPECT_EQ(random.normal(10, 0.5), 0x1.44c7a96696cc1p+3);
  std::uint64_t bits = 0;
  for (int i = 0; i < 1'000'000; ++i) bits = std::rotl(bits, 1) ^ std::bit_cast<std::uint64_t>(random.normal());
  EXPECT_EQ(bits, 0x99ec90047de8b4e1);
}

TEST(NumpyGeneratorTest, PermutationsAreThoseOfNumpy) {
  NumpyGenerator random(7);
  using Order = std::vector<std::int64_t>;
  EXPECT_EQ(random.permutation(10), (Order{8, 0, 7, 1, 3, 6, 2, 4, 5, 9}));
  EXPECT_EQ(random.permutation(1), (Order{0}));
  EXPECT_EQ(random.permutation(0), Order{});
  EXPECT_EQ(random.permutation(5), (Order{4, 3, 1, 2, 0}));
  EXPECT_THROW(random.permutation(-1), EnvError);
}

TEST(NumpyGeneratorTest, StandardAlgorithmsTakeIt) {
  static_assert(std::uniform_random_bit_generator<NumpyGenerator>);
  NumpyGenerator random(7), same(7);
  EXPECT_EQ(random(), same.next_uint64());
}

TEST(NumpyGeneratorTest, AStateContinuesTheStreamAlsoWithinASplitDraw) {
  NumpyGenerator random(5);
  random.next_uint32();
  NumpyGenerator copy(99);
  copy.set_state(random.state());
  EXPECT_EQ(copy.next_uint32(), random.next_uint32());
  EXPECT_EQ(copy.next_uint64(), random.next_uint64());
  EXPECT_EQ(copy.state(), random.state());
}

TEST(NumpyGeneratorTest, AnEmptyRangeIsAnError) {
  NumpyGenerator random(5);
  EXPECT_THROW(random.integers(3, 3), EnvError);
  EXPECT_THROW(random.integers(3, 2), EnvError);
}

}  // namespace
}  // namespace tandem::rl
