// device/recorded_work.h: work on a device that is recorded once and then started whole, as often as wanted.
//
// The two passes through a small network are a hundred kernels of some microseconds each, and starting one takes the
// host longer than the device needs for it. A CUDA graph starts them together. On the CPU there is nothing to save:
// work is done again.
//
// CUDA's part lies in a library of its own, libtandem_cuda.so, which is loaded when somebody asks for it
// (docs/decisions/0011, 0044). Threads: as each function says.
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>

namespace tandem::device {

class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues the work behind what the calling thread queued on the device before, and does not wait for it. It reads and
  /// writes the memory that it was recorded with, which must still be there. One thread at a time.
  virtual void replay() = 0;
};

/// Why work on `device` cannot be recorded, in a clause; empty when it can. Loads the library at the first CUDA device,
/// which blocks for that long. Threads: all. Throws ConfigError as require_cuda().
[[nodiscard]] std::string why_not_recorded(c10::Device device);

/// Records what `work` queues on `device`; none of it is done before replay(). `work` may neither wait for the device,
/// copy to or from the host, nor queue other work in another call. What it allocates stays its own, and tensors that it
/// leaves behind hold the results of the last replay(). Nothing of autograd's graph may be kept from earlier work. On
/// the CPU it is kept and called by each replay(), so whatever it refers to must live as long. Waits for what was
/// queued before. Throws RunError naming LibTorch's reason when the work cannot be recorded, and ConfigError when
/// why_not_recorded() gives a reason. Threads: all.
[[nodiscard]] std::unique_ptr<RecordedWork> record_work(c10::Device device, const std::function<void()>& work);

/// What libtandem_cuda.so offers under kRecordSymbol: work that the caller owns. Internal.
using RecordCudaGraph = RecordedWork*(c10::Device device, const std::function<void()>& work);
inline constexpr const char* kCudaGraphLibrary = "libtandem_cuda.so";
inline constexpr const char* kRecordSymbol = "tandem_record_cuda_graph";

}  // namespace tandem::device
