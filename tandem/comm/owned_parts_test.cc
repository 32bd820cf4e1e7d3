#include "tandem/comm/owned_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/comm/testing/group_laws.h"

namespace tandem::comm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<OwnedPart> kParts{{1, 0, 2}, {0, 2, 4}, {0, 5, 6}, {1, 6, 6}, {1, 6, 9}};

TEST(OwnedPartsTest, NeighboursOfOneOwnerAreJoinedAndEmptyPartsLeftOut) {
  const std::vector<OwnedPart> parts{{0, 0, 3}, {0, 3, 4}, {1, 4, 4}, {0, 4, 6}, {0, 7, 8}, {1, 8, 9}};
  EXPECT_THAT(merged(parts), ElementsAre(OwnedPart{0, 0, 6}, OwnedPart{0, 7, 8}, OwnedPart{1, 8, 9}));
}

TEST(OwnedPartsTest, WhatIsPackedGoesBackToItsPlacesAndNowhereElse) {
  const torch::Tensor flat = torch::arange(10), target = torch::full({10}, -1, torch::kLong);
  EXPECT_TRUE(torch::equal(packed(flat, kParts, 1), torch::tensor({0, 1, 6, 7, 8}, torch::kLong)));
  EXPECT_EQ(elements_of(kParts, 1), 5);
  unpack(packed(flat, kParts, 1), target, kParts, 1);
  EXPECT_TRUE(torch::equal(target, torch::tensor({0, 1, -1, -1, -1, -1, 6, 7, 8, -1}, torch::kLong)));
  EXPECT_EQ(packed(flat, kParts, 2).numel(), 0);
  EXPECT_THROW(unpack(packed(flat, kParts, 1), target, kParts, 0), InvariantError);
}

TEST(OwnedPartsTest, ASinglePieceIsAView) {
  const torch::Tensor flat = torch::arange(10);
  const std::vector<OwnedPart> parts{{0, 0, 4}, {1, 4, 10}};
  EXPECT_EQ(packed(flat, parts, 1).data_ptr(), flat.data_ptr<std::int64_t>() + 4);
}

// Runs `work` as each member of a local group.
std::vector<std::string> as_members(int size, const std::function<std::string(Group&)>& work) {
  const auto members = make_local_group(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (const auto& member : members) {
    threads.emplace_back([&said, &work, member = member.get()] {
      try {
        said[static_cast<std::size_t>(member->rank())] = work(*member);
      } catch (const std::exception& error) {
        said[static_cast<std::size_t>(member->rank())] = error.what();
      }
    });
  }
  threads.clear();
  return said;
}

TEST(OwnedPartsTest, MembersOfALocalGroupGetEveryPartFromItsOwner) {
  for (const int size : {1, 2, 3, 5}) EXPECT_THAT(as_members(size, faults_of_shared_parts), Each(""));
}

TEST(OwnedPartsTest, TensorsOfDifferentLengthsAreRefusedOnAllMembers) {
  const auto share = [](Group& group) {
    group.share_parts(torch::zeros({8 + group.rank()}), std::vector<OwnedPart>{{0, 0, 8}}, within_a_minute());
    return std::string();
  };
  EXPECT_THAT(as_members(2, share), Each(HasSubstr("share_parts of")));
}

}  // namespace
}  // namespace tandem::comm
