#include "tandem/app/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using ::testing::HasSubstr;

template <typename Thrown>
Failure failure_of(const Thrown& thrown) {
  return describe_failure(std::make_exception_ptr(thrown));
}

TEST(ExitCodeTest, EachFamilyOfErrorsHasItsCode) {
  EXPECT_EQ(failure_of(ConfigError("a")).code, ExitCode::kUserCanFixIt);
  EXPECT_EQ(failure_of(RunError("a")).code, ExitCode::kRunFailed);
  EXPECT_EQ(failure_of(EnvError("a")).code, ExitCode::kRunFailed);
  EXPECT_EQ(failure_of(PeerLost(3, "a")).code, ExitCode::kRunFailed);
  EXPECT_EQ(failure_of(std::bad_alloc()).code, ExitCode::kRunFailed);
  EXPECT_EQ(failure_of(std::system_error(std::make_error_code(std::errc::no_space_on_device))).code,
            ExitCode::kRunFailed);
  EXPECT_EQ(failure_of(InvariantError("a")).code, ExitCode::kDefect);
  EXPECT_EQ(failure_of(std::logic_error("a")).code, ExitCode::kDefect);
  EXPECT_EQ(failure_of(7).code, ExitCode::kDefect);
}

TEST(ExitCodeTest, TheMessageHoldsWhatHappened) {
  EXPECT_EQ(failure_of(ConfigError("seed = x")).message, "tandem: seed = x\n");
  EXPECT_EQ(failure_of(ConfigError(std::vector<std::string>{"a", "b"})).message,
            "tandem: 2 faults in the configuration:\n  - a\n  - b\n");
  EXPECT_EQ(failure_of(RunError("disk full")).message, "tandem: failed: disk full\n");
  EXPECT_THAT(failure_of(std::logic_error("odd")).message, HasSubstr("please report it"));
  EXPECT_THAT(failure_of(std::logic_error("odd")).message, HasSubstr("odd"));
}

}  // namespace
}  // namespace tandem::app
