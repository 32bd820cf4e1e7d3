#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/commands/run_ranks.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CommonInstructionsTest, AreTheMostThatAllRanksHave) {
  using enum InstructionSet;
  const auto common = [](InstructionSet first, InstructionSet second) {
    return lowest_of({{first, "AVX2"}, {second, "AVX2"}});
  };
  EXPECT_EQ(common(kAvx512, kAvx512), kAvx512);
  EXPECT_EQ(common(kAvx512, kAvx2), kAvx2);
  EXPECT_EQ(common(kPortable, kAvx2), kPortable);
}

TEST(CommonInstructionsTest, OfASingleProcessAreItsOwn) {
  const std::vector<InstructionsOfRank> alone = instructions_of(learner::Ranks());
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(lowest_of(alone), detect_instruction_set());
  EXPECT_NO_THROW(require_one_choice(alone));
}

std::string refusal(const std::vector<std::string>& choices) {
  std::vector<InstructionsOfRank> of_ranks;
  for (const std::string& chosen : choices) of_ranks.push_back({InstructionSet::kAvx2, chosen});
  try {
    require_one_choice(of_ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(CommonInstructionsTest, WhereLibTorchChoseDifferentlyTheErrorNamesTheRanksAndTheRemedy) {
  EXPECT_EQ(refusal({"AVX2", "AVX2"}), "none");
  EXPECT_THAT(refusal({"AVX512", "AVX2", "AVX512"}), AllOf(HasSubstr("AVX512 on ranks 0, 2, AVX2 on rank 1"),
                                                           HasSubstr("all ranks with ATEN_CPU_CAPABILITY=avx2")));
  EXPECT_THAT(refusal({"AVX512", "NO AVX"}), HasSubstr("ATEN_CPU_CAPABILITY=default"));
}

}  // namespace
}  // namespace tandem::app
