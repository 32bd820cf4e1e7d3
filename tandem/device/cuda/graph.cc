// The one source that includes CUDA's headers for graphs; libtandem_cuda.so (see device/recorded_work.h).
// clang-format off
#include <cuda.h>  // first: on its version depends which members LibTorch's graph has
// clang-format on
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "tandem/device/recorded_work.h"

namespace {

class CudaGraphWork final : public tandem::device::RecordedWork {
 public:
  CudaGraphWork(c10::Device device, const std::function<void()>& work) : device_(device) {
    const c10::cuda::CUDAGuard here(device);
    c10::cuda::getCurrentCUDAStream().synchronize();
    // The default stream cannot be captured, and LibTorch may give a stream's memory back with a graph that was
    // captured on it, so each has its own. Other threads go on meanwhile, and what they do on their devices (replicas
    // allocate) must not end this capture: hence the mode.
    const c10::cuda::CUDAStreamGuard aside(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
    graph_.capture_begin(/*pool=*/{0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      end_failed_capture();
      throw;
    }
    graph_.capture_end();
  }

  void replay() override {
    const c10::cuda::CUDAGuard here(device_);
    graph_.replay();
  }

 private:
  // The stream would go on capturing. That what was captured is no whole graph is known: the reason is under way.
  void end_failed_capture() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      graph_.reset();
    }
  }

  const c10::Device device_;
  at::cuda::CUDAGraph graph_;
};

}  // namespace

extern "C" tandem::device::RecordedWork* tandem_record_cuda_graph(c10::Device device,
                                                                  const std::function<void()>& work) {
  return new CudaGraphWork(device, work);
}
