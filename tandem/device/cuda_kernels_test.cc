#include "tandem/device/cuda_kernels.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tandem::device {
namespace {

// One thread reads and sets variables of the environment here.
// NOLINTBEGIN(concurrency-mt-unsafe)
class CudaKernelsTest : public testing::Test {
 protected:
  ~CudaKernelsTest() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
    at::globalContext().setBenchmarkCuDNN(false);
  }
};

TEST_F(CudaKernelsTest, DeterministicOnesAreAskedForEverywhere) {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  choose_cuda_kernels(CudaKernels::kDeterministic);
  const at::Context& context = at::globalContext();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_FALSE(context.deterministicFillUninitializedMemory());
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(CudaKernelsTest, AUsersWorkspaceStays) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  choose_cuda_kernels(CudaKernels::kDeterministic);
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

// NOLINTEND(concurrency-mt-unsafe)

TEST_F(CudaKernelsTest, TheFastestAreWhateverLibTorchTakes) {
  choose_cuda_kernels(CudaKernels::kDeterministic);
  choose_cuda_kernels(CudaKernels::kFastest);
  const at::Context& context = at::globalContext();
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicCuDNN());
  EXPECT_TRUE(context.benchmarkCuDNN());
}

// What an operation without such a kernel does.
TEST_F(CudaKernelsTest, AnOperationThatHasNoneNamesItself) {
  choose_cuda_kernels(CudaKernels::kDeterministic);
  try {
    at::Context::alertNotDeterministic("put_");
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("put_ does not have a deterministic implementation"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tandem::device
