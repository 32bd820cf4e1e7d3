#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/commands/run_session.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StartRanksTest, RanksThatWouldShareACudaDeviceAreRefusedWithWhatWorks) {
  const c10::Device cpu(c10::kCPU), cuda(c10::kCUDA, 0);
  EXPECT_NO_THROW(require_own_devices({cpu, cpu}, 8));
  EXPECT_NO_THROW(require_own_devices({cuda}, 1));
  try {
    require_own_devices({cuda}, 2);
    FAIL() << "two ranks share a device";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--ranks 2 --devices cuda:0: all 2 ranks would share cuda:0"),
                                    HasSubstr("--devices cuda:0,1"), HasSubstr("CUDA_VISIBLE_DEVICES=$LOCAL_RANK")));
  }
}

}  // namespace
}  // namespace tandem::app
