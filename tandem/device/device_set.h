// device/device_set.h: "cpu:2" and "cuda:0,1" as the devices of a rank's replicas.
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

namespace tandem::device {

/// One entry a replica. "cpu" and "cpu:N": N virtual devices, each a thread on the CPU with memory of its own.
/// "cuda:0,1" or "cuda": those CUDA devices, or all of them. Throws ConfigError when the text is no device set, names a
/// device twice, or names one that this machine or this LibTorch lacks.
[[nodiscard]] std::vector<c10::Device> parse_device_set(std::string_view text);

/// The text that parse_device_set() reads back as these devices.
[[nodiscard]] std::string to_string(const std::vector<c10::Device>& devices);

}  // namespace tandem::device
