#include "tandem/device/recorded_work.h"

#include <c10/util/Exception.h>

#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/text.h"
#include "tandem/device/device_set.h"

namespace tandem::device {
namespace {

// The CPU's way: a replay calls the work again.
class RepeatedWork final : public RecordedWork {
 public:
  explicit RepeatedWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  const std::function<void()> work_;
};

// The function that records graphs, or the reason why there is none.
struct Recorder {
  RecordCudaGraph* record = nullptr;
  std::string why_not;
};

#ifdef TANDEM_CUDA_GRAPHS

Recorder load_recorder() {
  require_cuda();
  SharedLibrary library(kCudaGraphLibrary);
  if (void* symbol = library.find(kRecordSymbol); symbol != nullptr)
    return {.record = reinterpret_cast<RecordCudaGraph*>(symbol), .why_not = ""};
  return {.record = nullptr,
          .why_not = concat(kCudaGraphLibrary, " cannot be loaded: ", library.why_not(),
                            " (it lies where tandem's libraries were built or installed: add that folder to "
                            "LD_LIBRARY_PATH)")};
}

#else

Recorder load_recorder() {
  return {.record = nullptr,
          .why_not =
              "this build has no CUDA graphs, since CUDA's headers were not found when it was configured (name their "
              "folder with -DTANDEM_CUDA_INCLUDE=DIR)"};
}

#endif

const Recorder& recorder() {
  static const Recorder loaded = load_recorder();
  return loaded;
}

}  // namespace

std::string why_not_recorded(c10::Device device) {
  if (device.is_cpu()) return "";
  if (device.is_cuda()) return recorder().why_not;
  return concat("nothing records work on ", device.str());
}

std::unique_ptr<RecordedWork> record_work(c10::Device device, const std::function<void()>& work) {
  if (device.is_cpu()) return std::make_unique<RepeatedWork>(work);
  if (const std::string why = why_not_recorded(device); !why.empty())
    throw ConfigError(concat("work on ", device.str(), " cannot be recorded: ", why));
  try {
    return std::unique_ptr<RecordedWork>(recorder().record(device, work));
  } catch (const c10::Error& error) {
    throw RunError(concat("work on ", device.str(), " cannot be recorded as a CUDA graph, because it waits for the ",
                          "device or copies from the host, say: ", error.what_without_backtrace()));
  }
}

}  // namespace tandem::device
