// device/device_set.h: reads "cpu:2" and "cuda:0,1" as the devices of a rank's replicas. LibTorch's CUDA part is loaded
// when a CUDA device is asked for, and not before: a program that links that part starts slower and takes three times
// the memory, so none of Tandem's programs does.
//
// Threads: all. Blocks once, while CUDA's libraries are loaded.
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

namespace tandem::device {

/// Returns one device for each replica. "cpu" and "cpu:N" give N virtual devices, each a thread on the CPU with memory
/// of its own. "cuda:0,1" gives those CUDA devices, "cuda" gives all of them. Throws ConfigError when the text is no
/// device set, names a device twice, or names a device that this machine or this LibTorch lacks. A CUDA device loads
/// LibTorch's CUDA part.
[[nodiscard]] std::vector<c10::Device> parse_device_set(std::string_view text);

/// Returns the text that parse_device_set() reads back as these devices.
[[nodiscard]] std::string to_string(const std::vector<c10::Device>& devices);

/// Makes CUDA devices usable. Throws ConfigError with the loader's own words when this LibTorch has no CUDA part, when
/// a library that the part needs is missing, when there is no driver or device, and when LibTorch was asked for CUDA
/// before, as torch::manual_seed() does: it looks once a process. Programs that do so call this at their start.
void require_cuda();

}  // namespace tandem::device
