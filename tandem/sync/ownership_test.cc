#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include "tandem/base/text.h"
#include "tandem/sync/replicated.h"

namespace tandem::sync {
namespace {

using comm::OwnedPart;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Variables : torch::nn::Module {
  explicit Variables(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) register_parameter(concat("v", i), torch::zeros({sizes[i]}));
  }
};

TEST(OwnershipTest, EqualPartsCoverEveryElementAndEndAtMultiplesOf64Bytes) {
  const model::FlatParameters flat(std::make_shared<Variables>(std::vector<std::int64_t>{1000, 7, 333}), {});
  const std::int64_t count = flat.buffers()[0].values.numel();
  for (const int members : {1, 2, 3, 7, 100}) {
    const Ownership ownership = divide_equally(flat, members);
    std::int64_t end = 0;
    for (const OwnedPart& part : ownership[0]) {
      EXPECT_EQ(part.begin, end);
      end = part.end;
      EXPECT_EQ(part.end % 16 == 0 || part.end == count, true);
      EXPECT_LE(part.size(), count / members + 32);
    }
    EXPECT_EQ(end, count);
  }
}

// By size: 96 to 0, 80 to 1, 64 to 2, 48 to 2 (of 96, 80, 64), 32 to 1, 16 to 0.
TEST(OwnershipTest, TheLargestVariableGoesToTheLeastLoadedServerFirst) {
  const model::FlatParameters flat(std::make_shared<Variables>(std::vector<std::int64_t>{16, 32, 48, 64, 80, 96}), {});
  EXPECT_THAT(place_by_load(flat, 3),
              ElementsAre(ElementsAre(OwnedPart{0, 0, 16}, OwnedPart{1, 16, 48}, OwnedPart{2, 48, 160},
                                      OwnedPart{1, 160, 240}, OwnedPart{0, 240, 336})));
  EXPECT_THAT(place_by_load(flat, 1), ElementsAre(ElementsAre(OwnedPart{0, 0, 336})));
}

TEST(OwnershipTest, LoadIsInBytesAndGapsBelongToTheVariableBeforeThem) {
  auto module = std::make_shared<Variables>(std::vector<std::int64_t>{3, 20});
  module->register_parameter("d", torch::zeros({17}, torch::kDouble));
  const model::FlatParameters flat(module, {});
  // 17 of float64 are more bytes than 20 of float32.
  EXPECT_THAT(place_by_load(flat, 2), ElementsAre(ElementsAre(OwnedPart{1, 0, 48}), ElementsAre(OwnedPart{0, 0, 24})));
}

TEST(OwnershipTest, SparseBuffersHaveNoOwner) {
  auto module = std::make_shared<Variables>(std::vector<std::int64_t>{64});
  module->register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 8).sparse(true)));
  const model::FlatParameters flat(module, {});
  for (const Ownership& ownership : {divide_equally(flat, 2), place_by_load(flat, 2)}) {
    ASSERT_EQ(ownership.size(), 2U);
    EXPECT_FALSE(ownership[0].empty());
    EXPECT_THAT(ownership[1], IsEmpty());
  }
}

}  // namespace
}  // namespace tandem::sync
