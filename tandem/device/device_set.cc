#include "tandem/device/device_set.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/text.h"

namespace tandem::device {
namespace {

constexpr int kMostDevices = 1024;  // a larger number is a typing error

std::optional<int> parse_count(std::string_view text) {
  const std::optional<int> value = parse_number<int>(text);
  return value && *value >= 0 && *value <= kMostDevices ? value : std::nullopt;
}

// Throws ConfigError about the device set `text`, with the forms that work.
[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw ConfigError(concat("devices: '", text, "' ", why,
                           "; use cpu:N for N replicas on this machine's CPU, or cuda:0,1 for CUDA devices by index"));
}

std::vector<c10::Device> cpu_devices(std::string_view text, std::string_view count) {
  const std::optional<int> devices = count.empty() ? 1 : parse_count(count);
  if (!devices || *devices == 0)
    refuse(text, concat("asks for '", count, "' CPU replicas, not a number from 1 to ", kMostDevices));
  return std::vector<c10::Device>(static_cast<std::size_t>(*devices), c10::Device(c10::kCPU));
}

std::vector<c10::Device> cuda_devices(std::string_view text, std::string_view list) {
  require_cuda();
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): a count, of at most 127
  const int present = at::globalContext().getAcceleratorHooksInterface(c10::kCUDA).deviceCount();
  std::vector<c10::Device> devices;
  if (list.empty()) {
    for (int i = 0; i < present; ++i) devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
  }
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::optional<int> index = parse_count(list.substr(0, comma));
    if (!index) refuse(text, concat("has '", list.substr(0, comma), "' where a device index is expected"));
    if (*index >= present) refuse(text, concat("names CUDA device ", *index, " of ", present, " that are present"));
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(*index));
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
      refuse(text, concat("names CUDA device ", *index, " twice; one replica a device"));
    }
    devices.push_back(device);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  if (devices.empty()) refuse(text, "finds no CUDA device");
  return devices;
}

// A process may have LibTorch without a run path to it, as one of Python's has. Its other libraries lie beside it.
std::filesystem::path beside_libtorch(const std::string& name) {
  Dl_info loaded{};
  if (::dladdr(reinterpret_cast<const void*>(&at::globalContext), &loaded) == 0 || loaded.dli_fname == nullptr)
    return {};
  return std::filesystem::path(loaded.dli_fname).parent_path() / name;
}

// Why it cannot be loaded; empty: it is. The library registers its devices with ATen while it is loaded.
std::string load_cuda_library() {
  const std::string name = "libtorch_cuda.so";
  const std::filesystem::path beside = beside_libtorch(name);
  std::error_code error;
  const bool is_there = std::filesystem::exists(beside, error);
  return SharedLibrary(is_there ? beside.string() : name, SharedLibrary::Symbols::kGlobal).why_not();
}

}  // namespace

// LibTorch's library is loaded once; a failure is kept and thrown at each call.
void require_cuda() {
  static const std::string failure = load_cuda_library();
  if (!failure.empty()) {
    throw ConfigError(concat("devices: CUDA was asked for, but LibTorch's CUDA library cannot be loaded: ", failure,
                             "; use a CUDA build of LibTorch with its CUDA libraries, or --devices cpu:N"));
  }
  if (!at::hasCUDA()) {
    // LibTorch keeps the first answer for ever, also one that was given before its CUDA library was loaded.
    const auto hooks = at::CUDAHooksRegistry()->Create("CUDAHooks", at::CUDAHooksArgs{});
    if (hooks && hooks->hasCUDA()) {
      throw ConfigError(
          "devices: CUDA was asked for too late: something had LibTorch look for it before, as torch::manual_seed() "
          "does, and LibTorch keeps the answer; call device::require_cuda() at the start of main(), or link "
          "libtorch_cuda");
    }
    throw ConfigError(
        "devices: CUDA was asked for, but no CUDA device or driver was found; look at nvidia-smi, or use --devices "
        "cpu:N");
  }
}

std::vector<c10::Device> parse_device_set(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const bool has_list = colon != std::string_view::npos;
  const std::string_view rest = has_list ? text.substr(colon + 1) : std::string_view();
  if (has_list && rest.empty()) refuse(text, "ends after the colon");
  const auto names = [text](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (names("cpu") && names("cuda")) refuse(text, "mixes CPU and CUDA replicas");
  if (kind == "cpu") return cpu_devices(text, rest);
  if (kind == "cuda") return cuda_devices(text, rest);
  refuse(text, "is not a device set");
}

std::string to_string(const std::vector<c10::Device>& devices) {
  if (devices.empty()) return "none";
  if (devices.front().is_cpu()) return concat("cpu:", devices.size());
  std::string text = "cuda:";
  for (std::size_t i = 0; i < devices.size(); ++i)
    text += concat(i == 0 ? "" : ",", static_cast<int>(devices[i].index()));
  return text;
}

}  // namespace tandem::device
