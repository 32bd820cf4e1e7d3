#include "tandem/rl/env/isolated/region_layout.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/isolated/bell.h"
#include "tandem/rl/env/isolated/env_region.h"
#include "tandem/rl/env/isolated/worker_task.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

Spec many_leaves() {
  return {.id = "Many-v0",
          .observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {3, 5, 7}},
                          {.name = "word", .type = ElementType::kInt64, .shape = {}},
                          {.name = "place", .shape = {2}},
                          {.name = "clock", .type = ElementType::kFloat64, .shape = {3}}},
          .action = MultiDiscrete{{3, 2}},
          .has_action_mask = true,
          .metrics = {{.name = "near"}}};
}

struct Part {
  std::uint64_t begin, bytes;
};
std::vector<Part> parts_of(const RegionLayout& layout) {
  const RegionTable& table = layout.table;
  const std::uint64_t rows = table.environments;
  std::vector<Part> parts{{0, sizeof(RegionHeader)},
                          {sizeof(RegionHeader), layout.leaves.size() * sizeof(LeafEntry)},
                          {table.actions, rows * table.action_elements * 8},
                          {table.reward, rows * 8},
                          {table.terminated, rows},
                          {table.truncated, rows},
                          {table.mask, rows * table.mask_elements},
                          {table.metric_values, rows * table.metrics * 8},
                          {table.seeds, rows * 8},
                          {table.failures, rows * 8},
                          {table.start_seeds, rows * 8},
                          {table.window, kWindowBytes}};
  for (const LeafEntry& leaf : layout.leaves) {
    parts.push_back({leaf.observation, rows * leaf.row_bytes});
    parts.push_back({leaf.final_observation, rows * leaf.row_bytes});
  }
  std::ranges::sort(parts, {}, &Part::begin);
  return parts;
}

TEST(RegionLayoutTest, NoTwoArraysOverlapAndAllAreAligned) {
  for (const int environments : {1, 7, 1000}) {
    const RegionLayout layout = layout_of(many_leaves(), environments, 0);
    EXPECT_EQ(layout.leaves[1].row_bytes, 8u);
    EXPECT_EQ(layout.leaves[2].row_bytes, 8u);
    EXPECT_EQ(layout.leaves[3].row_bytes, 24u);
    EXPECT_EQ(layout.leaves[3].type, 3u);
    EXPECT_EQ(layout.table.mask_elements, 5u);
    const std::vector<Part> parts = parts_of(layout);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      EXPECT_EQ(parts[i].begin % 64, 0u);
      EXPECT_LE(parts[i].begin + parts[i].bytes, parts[i + 1].begin);
    }
    EXPECT_LE(parts.back().begin + parts.back().bytes, layout.table.bytes);
  }
}

TEST(RegionLayoutTest, WhatNobodyCouldMapIsRefused) {
  Spec spec = many_leaves();
  spec.observation[0].shape = {1'000'000, 1'000'000, 1'000'000};
  EXPECT_THAT(message_of<ConfigError>([&] { (void)layout_of(spec, 1, 0); }), HasSubstr("more than 64 GiB"));
  spec.observation[0].shape = {1'000'000};
  EXPECT_THAT(message_of<ConfigError>([&] { (void)layout_of(spec, 2'000'000'000, 0); }), HasSubstr("GiB"));
}

TEST(EnvRegionTest, TheOtherSideCannotMakeItShorter) {
  const RegionLayout layout = layout_of(many_leaves(), 4, 50);
  const EnvRegion region(layout);
  EXPECT_NE(::ftruncate(region.descriptor(), 0), 0);
  EXPECT_EQ(errno, EPERM);
  const EnvRegion other = EnvRegion::open(::fcntl(region.descriptor(), F_DUPFD_CLOEXEC, 0));
  EXPECT_TRUE(other.has(layout_of(many_leaves(), 4, 0)));
  EXPECT_FALSE(other.has(layout_of(many_leaves(), 5, 0)));
  region.array<double>(layout.table.reward)[3] = 2.5;
  EXPECT_EQ(other.array<double>(layout.table.reward)[3], 2.5);
}

TEST(EnvRegionTest, WhatIsNoneIsRefused) {
  EXPECT_THAT(message_of<ConfigError>([] { (void)EnvRegion::open(::open("/dev/null", O_RDWR | O_CLOEXEC)); }),
              HasSubstr("not by hand"));
  const int zeros = ::memfd_create("zeros", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(zeros, 4096), 0);
  EXPECT_THAT(message_of<ConfigError>([zeros] { (void)EnvRegion::open(zeros); }), HasSubstr("not by hand"));
}

TEST(BellTest, AWaitEndsWithTheOtherSideOrTheDeadline) {
  std::atomic<std::uint32_t> number{4}, sleeps{0};
  BellWait wait{.number = number, .value = 4, .own_sleeps = sleeps, .socket = -1};
  EXPECT_EQ(wait.until(Deadline::after({})), BellOutcome::kRung);
  wait.value = 5;
  EXPECT_EQ(wait.until(Deadline::infinite()), BellOutcome::kGone) << "no socket";
}

TEST(WorkerTaskTest, IsReadAsItWasWritten) {
  const WorkerTask task{.env = "Hover-v0",
                        .options = {{"gravity", "uniform(1, \"2\")"}},
                        .wrappers = {"frame_skip=4", "frame_stack=2:zero@left"},
                        .plugins = {"/a b/\"c\".so"},
                        .environments = 8,
                        .restarts = 3};
  EXPECT_EQ(read_task(json_of(task)), task);
  EXPECT_EQ(read_task(json_of({.env = "A", .environments = 1})).restarts, std::nullopt);
}

}  // namespace
}  // namespace tandem::rl
