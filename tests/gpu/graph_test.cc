// CUDA graphs: recorded passes have the bits of those that are not. Built where libtandem_cuda.so is.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_runs.h"
#include "tandem/base/error.h"
#include "tandem/device/recorded_work.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

TEST(CudaGraphTest, PpoHasTheBitsOfPpoByAutograd) {
  PpoRun graph(cuda_cartpole(LossKernel::kAuto)), autograd(cuda_cartpole(LossKernel::kOff));
  EXPECT_THAT(graph.gradients_by(), HasSubstr("recorded once as a CUDA graph"));
  EXPECT_THAT(autograd.gradients_by(), HasSubstr("ppo.kernel is off"));
  for (int update = 0; update < 8; ++update) {
    const RunReport by_graph = graph.update(), by_autograd = autograd.update();
    EXPECT_EQ(by_graph.learning.policy_loss, by_autograd.learning.policy_loss) << "update " << update;
    EXPECT_EQ(graph.state_sha256(), autograd.state_sha256()) << "update " << update;
  }
}

TEST(CudaGraphTest, ImpalaAndAppoHaveTheBitsOfThoseByAutograd) {
  for (const bool appo : {false, true}) {
    ImpalaRun graph(cuda_impala(appo, LossKernel::kAuto)), autograd(cuda_impala(appo, LossKernel::kOff));
    EXPECT_THAT(graph.gradients_by(), HasSubstr("recorded once as a CUDA graph"));
    for (int update = 0; update < 3; ++update) {
      (void)graph.update();
      (void)autograd.update();
      EXPECT_EQ(graph.params_sha256(), autograd.params_sha256()) << (appo ? "APPO" : "IMPALA") << ", update " << update;
    }
  }
}

TEST(CudaGraphTest, AReplayWorksOnWhatLiesInItsMemoryNow) {
  const c10::Device device = device::parse_device_set("cuda:0").front();
  ASSERT_EQ(device::why_not_recorded(device), "");
  const at::Tensor x = at::full({4}, 2.0, device);
  at::Tensor y;
  const auto work = device::record_work(device, [&] { y = x.square() + 1; });
  for (const float value : {3.0F, 4.0F}) {
    x.fill_(value);
    work->replay();
    EXPECT_TRUE(y.cpu().equal(at::full({4}, value * value + 1)));
  }
}

// The last one, since it leaves a capture behind that failed.
TEST(CudaGraphTest, WorkThatWaitsForTheDeviceIsRefusedAndTheDeviceGoesOn) {
  const c10::Device device = device::parse_device_set("cuda:0").front();
  const at::Tensor x = at::full({4}, 2.0, device);
  try {
    (void)device::record_work(device, [&] { (void)x.sum().item<float>(); });
    FAIL() << "a wait for the device was recorded";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot be recorded as a CUDA graph"));
  }
  EXPECT_EQ(x.sum().item<float>(), 8);
}

}  // namespace
}  // namespace tandem::rl
