// The one source that includes NCCL's headers; libtandem_nccl.so (see comm/links/linked_member.h).
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "tandem/comm/links/linked_member.h"

extern "C" c10d::Backend* tandem_make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                   int device_index) {
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(device_index));
  const auto own = c10d::ProcessGroupNCCL::Options::create();
  own->timeout = std::chrono::hours(24 * 365);  // limits are the group's
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, own);
  group->setBoundDeviceId(device);
  group->eagerConnectSingleDevice(device);
  return group.release();
}
