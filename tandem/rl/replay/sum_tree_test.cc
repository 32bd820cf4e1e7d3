#include "tandem/rl/replay/sum_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/base/testing/address_sanitizer.h"

namespace tandem::rl {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(TANDEM_ADDRESS_SANITIZER)
constexpr int kOperations = 50'000;
#else
constexpr int kOperations = 1'000'000;
#endif

// The same by one loop over all leaves.
struct NaiveSums {
  explicit NaiveSums(std::size_t leaves) : values(leaves) {}
  [[nodiscard]] long double before(std::size_t leaf) const {
    return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(leaf), 0.0L);
  }
  std::vector<double> values;
};

TEST(SumTreeTest, AMillionOperationsGiveWhatANaiveSumGives) {
  constexpr std::size_t kLeaves = 50;  // two levels above the leaves
  SumTree tree(kLeaves);
  NaiveSums naive(kLeaves);
  Philox random(1);
  for (int i = 0; i < kOperations; ++i) {
    const std::size_t leaf = random.below(kLeaves);
    const double value = random.below(4) == 0 ? 0 : std::exp(4 * random.normal());
    tree.set(leaf, value);
    naive.values[leaf] = value;
    const auto total = static_cast<double>(naive.before(kLeaves));
    ASSERT_NEAR(tree.total(), total, 1e-12 * total) << "after operation " << i;
    const std::size_t sought = random.below(kLeaves);
    if (naive.values[sought] < 1e-9 * total) continue;
    const long double middle = naive.before(sought) + 0.5L * static_cast<long double>(naive.values[sought]);
    ASSERT_EQ(tree.find(static_cast<double>(middle)), sought) << "after operation " << i;
  }
}

TEST(SumTreeTest, SumsFollowFromTheLeavesAloneWhateverCameBefore) {
  SumTree worn(1000), fresh(1000);
  Philox random(2);
  for (int i = 0; i < 20'000; ++i) worn.set(random.below(1000), std::exp(20 * random.normal()));
  for (std::size_t leaf = 0; leaf < 1000; ++leaf) {
    const double value = random.uniform_double();
    worn.set(leaf, value);
    fresh.put(leaf, value);
  }
  fresh.sum_up();
  EXPECT_EQ(worn.total(), fresh.total());
  for (std::size_t leaf = 0; leaf < 1000; ++leaf) worn.set(leaf, 0);
  EXPECT_EQ(worn.total(), 0) << "nothing is left of what was removed";
}

TEST(SumTreeTest, ALeafOfZeroIsNeverFoundAlsoAtAndBehindTheEnd) {
  SumTree tree(300);
  for (const std::size_t leaf : {7U, 128U, 290U}) tree.set(leaf, 0.1);
  for (int i = 0; i <= 1000; ++i) {
    const std::size_t found = tree.find(tree.total() * i / 1000);
    EXPECT_TRUE(found == 7 || found == 128 || found == 290) << found;
  }
  EXPECT_EQ(tree.find(tree.total()), 290U);
  EXPECT_EQ(tree.find(2 * tree.total()), 290U);
  EXPECT_EQ(tree.find(0), 7U);
  tree.set(289, 0.1);
  EXPECT_EQ(tree.find(2 * tree.total()), 290U) << "the last of several in one node";
}

TEST(SumTreeTest, ARangeBeginsWithItsFirstNumberAndEndsBeforeTheNextOnes) {
  SumTree tree(40);
  for (const std::size_t leaf : {3U, 4U, 20U}) tree.set(leaf, 1);
  EXPECT_EQ(tree.find(1), 4U);
  EXPECT_EQ(tree.find(2), 20U);
  EXPECT_EQ(tree.find(std::nextafter(1, 0)), 3U);
}

TEST(SumTreeTest, ARangeIsSetAsItsLeavesOneByOne) {
  SumTree at_once(500), one_by_one(500);
  Philox random(3);
  for (int i = 0; i < 300; ++i) {
    const std::size_t first = random.below(500), count = random.below(500 - first + 1);
    const double value = random.uniform_double();
    at_once.set_range(first, count, value);
    for (std::size_t leaf = first; leaf < first + count; ++leaf) one_by_one.set(leaf, value);
    ASSERT_EQ(at_once.total(), one_by_one.total()) << first << " + " << count;
    const double at = random.uniform_double() * at_once.total();
    ASSERT_EQ(at_once.find(at), one_by_one.find(at));
  }
}

TEST(SumTreeTest, TreesOfAnySizeFindEachLeaf) {
  for (const std::size_t leaves : {1, 2, 15, 16, 17, 255, 256, 257, 4097}) {
    SumTree tree(leaves);
    for (std::size_t leaf = 0; leaf < leaves; ++leaf) tree.set(leaf, 1);
    EXPECT_EQ(tree.total(), static_cast<double>(leaves));
    for (std::size_t leaf = 0; leaf < leaves; ++leaf) ASSERT_EQ(tree.find(static_cast<double>(leaf) + 0.5), leaf);
  }
}

TEST(SumTreeTest, SumsCostAFifteenthOfTheLeaves) {
  EXPECT_LE(static_cast<double>(SumTree::bytes_for(1'000'000)), 8e6 * (1 + 1.0 / 15) + 1000);
  EXPECT_GE(SumTree::bytes_for(1'000'000), 8'000'000U);
}

}  // namespace
}  // namespace tandem::rl
