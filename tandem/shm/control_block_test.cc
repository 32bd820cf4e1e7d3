#include "tandem/shm/control_block.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

namespace tandem::shm {
namespace {

TEST(ControlBlockTest, CoresOfAllRanksCountTogetherAndTheirQuotaOnce) {
  constexpr int kRanks = 3;
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(64, ControlBlock::bytes(kRanks)), std::free);
  std::memset(memory.get(), 0, ControlBlock::bytes(kRanks));
  ControlBlock& control = *ControlBlock::construct(memory.get(), kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    CPU_SET(rank, &control.rank(rank).cores);  // each is bound to one
    control.rank(rank).quota = std::numeric_limits<double>::infinity();
  }
  EXPECT_EQ(control.usable_cores().whole(), 3);
  for (int rank = 0; rank < kRanks; ++rank) control.rank(rank).quota = 1.5;
  EXPECT_EQ(control.usable_cores().whole(), 2);
  control.rank(1).quota = 0.5;
  EXPECT_EQ(control.usable_cores().whole(), 1);
}

}  // namespace
}  // namespace tandem::shm
