#include "tandem/app/commands/common_instructions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CommonInstructionsTest, AreTheMostThatAllRanksHave) {
  const auto common = [](InstructionSet first, InstructionSet second) {
    return common_instructions({{first, "AVX2"}, {second, "AVX2"}});
  };
  EXPECT_EQ(common(InstructionSet::kAvx512, InstructionSet::kAvx512), InstructionSet::kAvx512);
  EXPECT_EQ(common(InstructionSet::kAvx512, InstructionSet::kAvx2), InstructionSet::kAvx2);
  EXPECT_EQ(common(InstructionSet::kPortable, InstructionSet::kAvx2), InstructionSet::kPortable);
}

TEST(CommonInstructionsTest, OfASingleProcessAreItsOwn) {
  EXPECT_EQ(common_instructions(learner::Ranks()), detect_instruction_set());
}

TEST(CommonInstructionsTest, WhereLibTorchChoseDifferentlyTheErrorNamesTheRanksAndTheRemedy) {
  constexpr InstructionSet kOwn = InstructionSet::kAvx2;
  try {
    (void)common_instructions({{kOwn, "AVX512"}, {kOwn, "AVX2"}, {kOwn, "AVX512"}});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("AVX512 on ranks 0, 2, AVX2 on rank 1"),
                                    HasSubstr("start all ranks with ATEN_CPU_CAPABILITY=avx2")));
  }
}

}  // namespace
}  // namespace tandem::app
