// NCCL on one device: the backend is found, loaded and made, and what it carries arrives.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tandem/base/library/shared_library.h"
#include "tandem/comm/links/linked_member.h"
#include "tandem/comm/links/network_group.h"
#include "tandem/device/device_set.h"

namespace tandem::comm {
namespace {

// A group of one rank makes no backend, so this asks for one as a group of several does.
TEST(NcclTest, ABackendOfOneRankSumsAndSpreadsWhatLiesOnTheDevice) {
  ASSERT_TRUE(has_nccl());
  const c10::Device device = device::parse_device_set("cuda:0").front();
  SharedLibrary library(kNcclLibrary);
  void* const symbol = library.find(kNcclSymbol);
  ASSERT_NE(symbol, nullptr) << library.why_not();
  const auto backend = c10::intrusive_ptr<c10d::Backend>::reclaim(
      reinterpret_cast<MakeNccl*>(symbol)(c10::make_intrusive<c10d::HashStore>(), 0, 1, 0));
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    std::vector<at::Tensor> flat = {at::arange(1000, at::TensorOptions().dtype(dtype).device(device))};
    const at::Tensor before = flat.front().cpu();
    backend->allreduce(flat)->wait();
    backend->broadcast(flat)->wait();
    EXPECT_TRUE(flat.front().cpu().equal(before)) << dtype;
  }
}

}  // namespace
}  // namespace tandem::comm
