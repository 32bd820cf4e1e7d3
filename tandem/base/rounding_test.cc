#include "tandem/base/rounding.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(KeptRoundingTest, PutsBackWhatWasChanged) {
  const std::int64_t before = KeptRounding::restored();
  {
    const KeptRounding kept;
    std::fesetround(FE_UPWARD);
  }
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(KeptRounding::restored(), before + 1);
  { const KeptRounding kept; }
  EXPECT_EQ(KeptRounding::restored(), before + 1);
}

}  // namespace
}  // namespace tandem
