// What a part costs, and where its memory lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/replay/replay_mapping.h"
#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

TEST(ReplayMemoryTest, ATransitionCostsATenthMoreThanItsArraysAtMost) {
  Spec limitless = cheetah_spec(ElementType::kFloat32);
  limitless.max_episode_steps = 0;
  const ReplayOptions million{};
  for (const int envs : {1, 16, 256, 4096}) {
    for (const Spec& spec : {limitless, cheetah_spec(ElementType::kFloat64), atari_spec(), plain_spec(4)}) {
      for (const KeptEnds kept : {KeptEnds::kTruncated, KeptEnds::kAll}) {
        ReplayOptions options{.kept_ends = kept, .priorities = PriorityOptions{}};
        if (spec.id == "Atari-v0") options.leaves = {{.frames = 4}};
        const PartBytes bytes = bytes_of_part(spec, envs, options);
        EXPECT_LE(static_cast<double>(bytes.whole), 1.1 * static_cast<double>(bytes.arrays))
            << spec.id << " x " << envs;
        EXPECT_GE(bytes.whole, bytes.arrays);
      }
    }
  }
  for (const std::int64_t rows : {10'000, 50'000}) {
    const PartBytes bytes = bytes_of_part(limitless, 1, {.rows = rows});
    EXPECT_LE(static_cast<double>(bytes.whole), 1.1 * static_cast<double>(bytes.arrays)) << rows;
  }
}

TEST(ReplayMemoryTest, AMillionStepsOfHalfCheetahAreWithin250Megabytes) {
  const auto whole = [](ElementType type, int envs) { return bytes_of_part(cheetah_spec(type), envs, {}).whole; };
  for (const int envs : {1, 8}) {
    EXPECT_LE(whole(ElementType::kFloat32, envs), 110'000'000U);
    EXPECT_LE(whole(ElementType::kFloat64, envs), 180'000'000U);
  }
}

TEST(ReplayMemoryTest, AccountingIsWhatIsHeld) {
  const Spec spec = cheetah_spec(ElementType::kFloat32);
  const ReplayOptions options{.rows = 10'000, .priorities = PriorityOptions{}};
  const ReplayPart part(spec, 4, options, 1);
  EXPECT_NEAR(static_cast<double>(part.stats().bytes), static_cast<double>(bytes_of_part(spec, 4, options).whole), 500)
      << "and the index of ends, which is empty";
}

// Sanitizers keep memory of their own beside it.
#if !defined(__SANITIZE_THREAD__) && !defined(TANDEM_ADDRESS_SANITIZER)
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  statm >> pages >> pages;
  return pages * 4096;
}

TEST(ReplayMemoryTest, ResidentMemoryIsWhatTheAccountingSays) {
  const Spec spec = cheetah_spec(ElementType::kFloat32);
  constexpr int kEnvs = 64, kSteps = 3000;
  const std::uint64_t before = resident_bytes();
  ReplayPart part(spec, kEnvs, {.rows = kEnvs * kSteps}, 1);
  EnvBuffers buffers(spec, kEnvs);
  const std::vector<float> actions(kEnvs * 6);
  part.begin(buffers.arrays());
  for (int step = 0; step < kSteps + kSteps / 2; ++step) part.append({.box = actions.data()}, buffers.arrays());
  const auto grown = static_cast<double>(resident_bytes() - before);
  const double arrays = 1.0 * kEnvs * kSteps * (17 * 4 + 6 * 4 + 8 + 1);
  EXPECT_LE(grown, 1.1 * arrays + 1e6) << arrays;
  EXPECT_GE(grown, 0.9 * arrays);
}
#endif

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(ReplayMemoryTest, FilesHoldTheSameAsMemoryAndANamelessOneLeavesNothing) {
  const TemporaryFolder folder;
  const auto drawn = [&](const ReplayMemory& memory) {
    Past past(mixed_spec(), 2, 9);
    ReplayPart part(past.spec(), 2, {.rows = 60, .memory = memory}, 4);
    past.begin(part);
    past.steps(part, 100);
    return Draw(part, past.spec(), 50);
  };
  const Draw in_memory = drawn({});
  EXPECT_EQ(drawn({.place = ReplayMemory::Place::kNamelessFile, .path = folder.path()}), in_memory);
  EXPECT_TRUE(files_in(folder.path()).empty());
  const ReplayMemory named{.place = ReplayMemory::Place::kNamedFile, .path = folder / "replay"};
  EXPECT_EQ(drawn(named), in_memory);
  EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"replay"});
  const auto size = std::filesystem::file_size(folder / "replay");
  EXPECT_EQ(drawn(named), in_memory) << "made anew over its own kind";
  EXPECT_EQ(std::filesystem::file_size(folder / "replay"), size) << "it does not grow";
}

TEST(ReplayMemoryTest, AFileOfTheUsersIsLeftAlone) {
  const TemporaryFolder folder;
  const std::string text = "my thesis, of which there is no copy\n";
  std::ofstream(folder / "thesis") << text;
  const ReplayMemory memory{.place = ReplayMemory::Place::kNamedFile, .path = folder / "thesis"};
  const std::string message =
      message_of<CheckpointError>([&] { ReplayPart(plain_spec(), 1, {.rows = 10, .memory = memory}, 1); });
  EXPECT_NE(message.find("thesis is there and is no replay's memory"), std::string::npos) << message;
  std::ifstream file(folder / "thesis");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

// A petabyte: before anything is written to it, and not by a signal later.
TEST(ReplayMemoryTest, ADiskThatHasNoRoomIsAnErrorWithTheBytesThatItLacks) {
  const TemporaryFolder folder;
  const std::size_t bytes = std::size_t{1} << 50;
  const std::string message = message_of<CheckpointError>(
      [&] { (void)map_replay({.place = ReplayMemory::Place::kNamelessFile, .path = folder.path()}, bytes); });
  EXPECT_NE(message.find("a replay's 1125899906842624 bytes cannot be had in " + folder.path().string()),
            std::string::npos)
      << message;
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(ReplayMemoryTest, AFolderThatIsNotThereIsAnErrorWithItsName) {
  for (const auto place : {ReplayMemory::Place::kNamelessFile, ReplayMemory::Place::kNamedFile}) {
    const ReplayMemory memory{.place = place, .path = "/nowhere/replay"};
    const std::string message =
        message_of<CheckpointError>([&] { ReplayPart(plain_spec(), 1, {.rows = 10, .memory = memory}, 1); });
    EXPECT_NE(message.find("/nowhere/replay"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tandem::rl
