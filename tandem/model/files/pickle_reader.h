// model/pickle_reader.h: reads the pickle inside of a file that Python's torch.save() wrote, as far as it holds plain
// data: None, numbers, strings, lists, tuples, dicts (OrderedDict too) and tensors.
//
// LibTorch's own torch::pickle_load() gives up at an OrderedDict, which is what state_dict() is in Python. Nothing that
// the file names is ever called: whatever else it holds is an error that names it.
//
// Threads: any. Errors: CheckpointError with the byte and the cause.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::model {

/// The elements of the storage called `key`, one-dimensional, exactly `count` of them.
using LoadStorage = std::function<at::Tensor(const std::string& key, at::ScalarType dtype, std::int64_t count)>;

/// Dicts come as GenericDict, lists as GenericList, tensors with memory of their own on the CPU.
[[nodiscard]] at::IValue read_pickle(std::string_view pickle, const LoadStorage& load_storage);

}  // namespace tandem::model
