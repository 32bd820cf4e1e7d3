// device/recorded_work.h: work on a device that is recorded once and then started as a whole, as often as needed.
//
// The two passes through a small network are a hundred kernels of some microseconds each. The host needs longer to
// start a kernel than the device needs to run it. A CUDA graph starts all of them together. On the CPU there is nothing
// to gain, so a replay calls the work again.
//
// The code for CUDA lies in a library of its own, libtandem_cuda.so, which is loaded at the first use
// (docs/decisions/0011, 0044). Threads: as each function says.
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>

namespace tandem::device {

/// Work that can be started again. Ownership: it keeps the memory that the work allocated.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues the work behind everything that the calling thread has queued on the device, and does not wait for it. The
  /// work reads and writes the memory that it was recorded with, which must still exist. One thread at a time.
  virtual void replay() = 0;
};

/// Returns why work on `device` cannot be recorded, as a clause; empty when it can. Blocks at the first CUDA device,
/// while the library is loaded. Threads: all. Throws ConfigError as require_cuda().
[[nodiscard]] std::string why_not_recorded(c10::Device device);

/// Records everything that `work` queues on `device`; nothing of it is done before replay(). `work` may not wait for
/// the device, may not copy to or from the host, and must queue the same operations each time. Memory that `work`
/// allocates belongs to the recording, and tensors that `work` leaves behind hold the results of the last replay(). No
/// node of autograd's graph may come from earlier work. On the CPU `work` itself is kept and called by each replay(),
/// so whatever it refers to must live as long. Waits for everything that was queued before. Throws RunError with
/// LibTorch's reason when the work cannot be recorded, and ConfigError when why_not_recorded() gives a reason. Threads:
/// all.
[[nodiscard]] std::unique_ptr<RecordedWork> record_work(c10::Device device, const std::function<void()>& work);

/// The function that libtandem_cuda.so exports as kRecordSymbol. The caller owns its result. Internal.
using RecordCudaGraph = RecordedWork*(c10::Device device, const std::function<void()>& work);
inline constexpr const char* kCudaGraphLibrary = "libtandem_cuda.so";
inline constexpr const char* kRecordSymbol = "tandem_record_cuda_graph";

}  // namespace tandem::device
