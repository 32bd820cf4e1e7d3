// model/files/pickle_reader.h: reads the pickle inside of a file that Python's torch.save() wrote, as far as it holds
// plain data: None, numbers, strings, lists, tuples, dicts (OrderedDict too) and tensors.
//
// LibTorch's own torch::pickle_load() gives up at an OrderedDict, which is what state_dict() is in Python. Nothing that
// the file names is ever called: whatever else it holds is an error that names it.
//
// Reading is safe on any bytes. Work and memory are in proportion to the pickle's length: at most 64 MiB and 64 bytes
// for each of its bytes, besides the storages, each of which is loaded once. A pickle that would take more is refused,
// as is one whose containers are nested more than 64 deep, contain themselves, or multiply by references to more than
// ten million parts.
//
// Threads: any. Errors: CheckpointError with the byte, or the value, and the cause.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::model {

/// The elements of the storage called `key`, one-dimensional, exactly `count` of them. Called once for each key.
using LoadStorage = std::function<at::Tensor(const std::string& key, at::ScalarType dtype, std::int64_t count)>;

/// Dicts come as GenericDict, lists as GenericList, tensors on the CPU. As in Python, tensors of one storage share its
/// memory, and a value that the pickle refers to twice is one value.
[[nodiscard]] at::IValue read_pickle(std::string_view pickle, const LoadStorage& load_storage);

}  // namespace tandem::model
